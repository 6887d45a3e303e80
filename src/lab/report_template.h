// SPDX-License-Identifier: Apache-2.0
// The fixed parts of the report's page, embedded from src/lab/page.
#pragma once

#include <string_view>

namespace tutti::lab {

extern const std::string_view kReportStyle;     // CSS
extern const std::string_view kReportDrawing;   // JavaScript: text, numbers, SVG, charts
extern const std::string_view kReportTimeline;  // JavaScript: timelines and their zoom
extern const std::string_view kReportPage;      // JavaScript: builds the page; runs last

}  // namespace tutti::lab
