// SPDX-License-Identifier: Apache-2.0
// The table of policies. A new policy is one file here and one row below (docs/adding-a-policy.md).
#include <fmt/format.h>

#include <algorithm>

#include "sched/policies/policies.h"
#include "sched/prediction/predicting_policy.h"

namespace tutti {

const std::vector<PolicyInfo>& policies() {
  static const std::vector<PolicyInfo> table = {
      concert_policy(), window_policy(), twins_policy(), fair_policy(), fifo_policy(),
      to_policy(),      sjf_policy(),    hbrr_policy(),  mlf_policy(),  aioli_policy(),
  };
  return table;
}

namespace {

bool can_predict(const PolicyInfo& info) {
  return std::ranges::any_of(info.options, [](const OptionInfo& option) { return option.name == "prediction"; });
}

}  // namespace

const PolicyInfo* find_policy(std::string_view name) {
  for (const PolicyInfo& policy : policies())
    if (policy.name == name) return &policy;
  return nullptr;
}

Result<std::unique_ptr<Policy>> make_policy(std::string_view name, PolicyOptions options, std::string_view device_class,
                                            std::shared_ptr<const PredictedQueues> predictions) {
  const PolicyInfo* info = find_policy(name);
  if (!info) {
    std::vector<std::string> names;
    for (const PolicyInfo& policy : policies()) names.push_back(policy.name);
    return fail(ErrorCode::kNotFound,
                fmt::format("there is no policy '{}'; there are: {}", name, fmt::join(names, ", ")));
  }
  if (!device_class.empty())
    for (const OptionInfo& option : info->options) {
      const std::string& fallback = device_class == "hdd" ? option.disk_fallback : option.flash_fallback;
      if (!fallback.empty()) options.try_emplace(option.name, fallback);
    }
  auto values = OptionValues::check(fmt::format("policy '{}'", name), info->options, options);
  if (!values) return Failure(values.error());
  auto made = info->make(*values);
  if (!made || !can_predict(*info) || (*made)->use_predictions(predictions)) return made;
  return with_prediction(std::move(*made), *values, std::move(predictions));
}

}  // namespace tutti
