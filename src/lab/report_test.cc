// SPDX-License-Identifier: Apache-2.0
#include "lab/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <sstream>

#include "base/json.h"
#include "lab/report_runs.h"

namespace tutti::lab {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// The document inside a page.
Json data_of(const std::string& page) {
  const std::string_view begin = R"(<script type="application/json" id="data">)";
  const std::size_t from = page.find(begin) + begin.size();
  return parse_json(page.substr(from, page.find("</script>", from) - from)).value_or(nullptr);
}

ExperimentResult hostile_result(const std::string& text) {
  ExperimentResult result;
  result.name = text;
  result.device = text;
  result.columns = {"policy", text};
  result.rows = {{text, 1.5}};
  result.claims = {{.id = text, .what = text, .unit = text, .ours = 1}};
  result.charts = {{.title = text, .x_label = text, .y_label = text, .lines = {{text, {1}, {2}}}}};
  result.timelines = {{.title = text, .jobs = {text}, .segments = {{.job = 0, .from = 0, .to = 1}}}};
  return result;
}

TEST(Report, NoTextBecomesMarkupOrScript) {
  const std::string hostile = "</script><!--<script>alert(1)</script><img src=x onerror=alert(2)>&\"'";
  const std::string harmless = to_html({"title", "", "", {hostile_result("text")}});
  const std::string page = to_html({hostile, hostile, hostile, {hostile_result(hostile)}});
  EXPECT_EQ(count(page, "<"), count(harmless, "<"));
  EXPECT_THAT(page, HasSubstr("<title>&lt;/script>&lt;!--"));
  const auto data = data_of(page);
  EXPECT_EQ(data["command"], hostile);
  EXPECT_EQ(data["results"][0]["rows"][0][hostile], 1.5);
  EXPECT_EQ(data["results"][0]["timelines"][0]["jobs"][0], hostile);
}

TEST(Report, LoadsNoOtherFiles) {
  const std::string page = to_html({"title", "command", "today", {hostile_result("text")}});
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* loader : {" src=", "url(", "@import", "<link", "fetch(", "https:"})
    EXPECT_THAT(page, Not(HasSubstr(loader))) << loader;
}

TEST(Report, ContainsFailingClaims) {
  ExperimentResult result = hostile_result("sc11-figure2");
  result.claims[0].goal = 0.5;
  const auto data = data_of(to_html({"title", "", "", {result}}));
  EXPECT_EQ(data["results"][0]["claims"][0]["holds"], false);
  EXPECT_EQ(data["results"][0]["figure"], "figure 2");
}

TEST(Report, HandlesNanAndInvalidUtf8) {
  ExperimentResult result = hostile_result("\xff\xfe");
  result.rows = {{std::string("a"), std::numeric_limits<double>::quiet_NaN()}};
  const auto data = data_of(to_html({"\xc3", "", "", {result}}));
  EXPECT_TRUE(data["results"][0]["rows"][0].members().back().second.is_null());
}

TEST(Report, ReplacesTheFileOrReportsTheReason) {
  const auto folder = std::filesystem::temp_directory_path() / ("tutti-report-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "page.html") << "old";
  ASSERT_TRUE(write_html({"new", "", "", {}}, folder / "page.html"));
  std::stringstream text;
  text << std::ifstream(folder / "page.html").rdbuf();
  EXPECT_EQ(text.str(), to_html({"new", "", "", {}}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);

  std::ofstream(folder / "page.md") << "before\n" << kMarkdownMarker << "\nstale text\n";
  ExperimentResult result;
  result.name = "sc11-figure2";
  result.claims.push_back(
      {.id = "sc11-figure2.window", .what = "mean", .unit = "x", .paper = 3, .goal = 3, .ours = 4, .bound = {}});
  ASSERT_TRUE(write_markdown({"", "", "", {result}}, folder / "page.md"));
  std::ifstream markdown(folder / "page.md");
  const std::string claims{std::istreambuf_iterator<char>(markdown), {}};
  EXPECT_TRUE(claims.starts_with("before\n")) << claims;
  EXPECT_THAT(claims, testing::HasSubstr("| mean <br>`window` | advance | 3 | ≤ 3 | 4× | – | **no** |"));
  EXPECT_THAT(claims, testing::Not(testing::HasSubstr("stale text")));

  const auto refused = write_html({}, folder / "none" / "page.html");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kIo);
  EXPECT_THAT(refused.error().message, HasSubstr((folder / "none" / "page.html").string()));
  EXPECT_FALSE(write_html({}, folder));  // a folder is not replaced
  std::filesystem::remove_all(folder);
}

TEST(Report, RunsOfAScenarioBecomeRowsChartsAndTimelines) {
  using namespace std::chrono_literals;
  sim::Scenario scenario;
  scenario.name = "pair";
  scenario.servers.device = FixedFigures{.latency = 10ms, .bandwidth = 0};
  for (const char* name : {"one", "two"}) {
    sim::Application application;
    application.name = name;
    application.iterations = 2;
    application.compute = 100ms;
    scenario.applications.push_back(application);
  }
  std::vector<lab::RecordedRun> runs;
  for (const char* policy : {"fifo", "window"}) {
    scenario.servers.policy.name = policy;
    auto measured = sim::measure(scenario);
    ASSERT_TRUE(measured) << measured.error().message;
    runs.push_back({scenario, *measured});
  }
  const ExperimentResult result = result_of(runs);
  EXPECT_EQ(result.name, "pair");
  ASSERT_THAT(result.rows, SizeIs(2));
  EXPECT_EQ(result.rows[1][0], Cell("window"));
  for (const auto& row : result.rows) EXPECT_THAT(row, SizeIs(result.columns.size()));
  ASSERT_THAT(result.timelines, SizeIs(2));
  EXPECT_THAT(result.timelines[0].jobs, ElementsAre("one", "two"));
  EXPECT_THAT(result.timelines[0].segments, SizeIs(8));  // two jobs, twice computing and twice I/O
  for (const Timeline::Segment& segment : result.timelines[0].segments) {
    EXPECT_LT(segment.from, segment.to);
    EXPECT_EQ(segment.megabytes_per_second > 0, segment.kind == Timeline::Segment::Kind::kInputOutput);
  }
  EXPECT_THAT(result.charts.at(0).x_names, ElementsAre("one", "two"));
  EXPECT_THAT(result.charts.at(0).lines, SizeIs(2));
}

}  // namespace
}  // namespace tutti::lab
