// SPDX-License-Identifier: Apache-2.0
// tutti policies: lists the scheduling policies, their options and defaults.
#include <fmt/core.h>

#include "base/json.h"
#include "base/table.h"
#include "command.h"
#include "sched/policy.h"

namespace tutti::cli {
namespace {

Json as_json() {
  auto list = Json::array();
  for (const PolicyInfo& policy : policies()) {
    auto options = Json::array();
    for (const OptionInfo& option : policy.options)
      options.push_back({{"name", option.name}, {"default", option.fallback}, {"help", option.help}});
    list.push_back({{"name", policy.name}, {"summary", policy.summary}, {"paper", policy.paper}, {"options", options}});
  }
  return list;
}

void print_table() {
  Table table({"policy", "option", "default", "what it does"});
  for (const PolicyInfo& policy : policies()) {
    table.add({policy.name, "", "", policy.summary + (policy.paper.empty() ? "" : " [" + policy.paper + "]")});
    for (const OptionInfo& option : policy.options) table.add({"", option.name, option.fallback, option.help});
  }
  fmt::print("{}", table.text());
}

}  // namespace

Command policies_command() {
  return {"policies", "List the scheduling policies with their options and defaults", [](CommandLine& line) {
            auto json = std::make_shared<bool>(false);
            line.json(*json);
            line.action([json] {
              if (*json)
                fmt::print("{}\n", as_json().dump(2));
              else
                print_table();
              return kDone;
            });
          }};
}

}  // namespace tutti::cli
