// SPDX-License-Identifier: Apache-2.0
#include "sim/bound.h"

#include <algorithm>
#include <limits>
#include <queue>

namespace tutti::sim {
namespace {

double bottleneck_sum(const std::vector<ShopJob>& jobs) {
  double sum = 0;
  for (const ShopJob& job : jobs)
    if (!job.demand.empty()) sum += *std::max_element(job.demand.begin(), job.demand.end());
  return sum;
}

// Sum of flow times on one machine under shortest remaining first, which is optimal for one machine.
double one_server_sum(const std::vector<ShopJob>& jobs, const std::vector<std::size_t>& by_release,
                      std::size_t machine) {
  using Waiting = std::pair<double, std::size_t>;  // remaining, job
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> waiting;
  double now = 0;
  double sum = 0;
  const auto serve_until = [&](double until) {
    while (!waiting.empty() && now < until) {
      auto [remaining, job] = waiting.top();
      waiting.pop();
      if (now + remaining <= until) {
        now += remaining;
        sum += now - jobs[job].release;
      } else {
        waiting.emplace(remaining - (until - now), job);
        now = until;
      }
    }
    now = std::max(now, until);
  };
  for (const std::size_t job : by_release) {
    serve_until(jobs[job].release);
    waiting.emplace(jobs[job].demand[machine], job);
  }
  while (!waiting.empty()) {
    now += waiting.top().first;
    sum += now - jobs[waiting.top().second].release;
    waiting.pop();
  }
  return sum;
}

// The dual value of the linear program with the parallel inequalities: sum of completions if all releases are 0.
double parallel_inequalities_sum(const std::vector<ShopJob>& jobs) {
  const std::size_t machines = jobs.front().demand.size();
  std::vector<double> load(machines, 0), squares(machines, 0);
  std::vector<std::size_t> left(jobs.size());
  std::vector<double> weight(jobs.size(), 1);
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    left[j] = j;
    for (std::size_t i = 0; i < machines; ++i) {
      load[i] += jobs[j].demand[i];
      squares[i] += jobs[j].demand[i] * jobs[j].demand[i];
    }
  }
  double dual = 0;
  while (!left.empty()) {
    const std::size_t machine = static_cast<std::size_t>(std::max_element(load.begin(), load.end()) - load.begin());
    std::size_t last = left.size();
    double rate = std::numeric_limits<double>::infinity();
    for (std::size_t k = 0; k < left.size(); ++k) {
      const double demand = jobs[left[k]].demand[machine];
      if (demand <= 0 || weight[left[k]] / demand >= rate) continue;
      rate = weight[left[k]] / demand;
      last = k;
    }
    if (last == left.size()) return dual;  // no demand left on any machine
    dual += rate * 0.5 * (load[machine] * load[machine] + squares[machine]);
    for (const std::size_t job : left) weight[job] = std::max(0.0, weight[job] - rate * jobs[job].demand[machine]);
    const ShopJob& chosen = jobs[left[last]];
    for (std::size_t i = 0; i < machines; ++i) {
      load[i] -= chosen.demand[i];
      squares[i] -= chosen.demand[i] * chosen.demand[i];
    }
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(last));
  }
  return dual;
}

}  // namespace

ShopBound open_shop_bound(const std::vector<ShopJob>& jobs) {
  if (jobs.empty()) return {};
  ShopBound best{bottleneck_sum(jobs), "bottleneck"};
  std::vector<std::size_t> by_release(jobs.size());
  for (std::size_t j = 0; j < jobs.size(); ++j) by_release[j] = j;
  std::sort(by_release.begin(), by_release.end(),
            [&](std::size_t a, std::size_t b) { return jobs[a].release < jobs[b].release; });
  for (std::size_t i = 0; i < jobs.front().demand.size(); ++i) {
    const double sum = one_server_sum(jobs, by_release, i);
    if (sum > best.mean_flow) best = {sum, "one server"};
  }
  if (jobs[by_release.front()].release == jobs[by_release.back()].release) {
    const double sum = parallel_inequalities_sum(jobs);
    if (sum > best.mean_flow) best = {sum, "parallel inequalities"};
  }
  best.mean_flow /= static_cast<double>(jobs.size());
  return best;
}

}  // namespace tutti::sim
