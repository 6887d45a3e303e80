// SPDX-License-Identifier: Apache-2.0
// Lower bounds for any schedule, from the concurrent open shop problem.
//
// Jobs have a demand on each machine, may be served in any order and interrupted at any time, and are complete when all
// machines have served them. Finding the least mean completion time is NP-hard for two machines; these bounds are not.
#pragma once

#include <string>
#include <vector>

namespace tutti::sim {

struct ShopJob {
  double release = 0;          // seconds
  std::vector<double> demand;  // seconds on each machine; the same length in all jobs
};

struct ShopBound {
  double mean_flow = 0;  // lower bound of the mean of completion minus release, seconds
  std::string which;     // name of the bound
};

// The largest of three bounds:
//   "bottleneck": each job needs at least its largest demand;
//   "one server": shortest remaining first on the worst server, with all other servers infinitely fast;
//   "parallel inequalities": the dual of the linear program over all servers, by the primal-dual method of Mastrolilli,
//    Queyranne, Schulz, Svensson and Uhan (2010), within a factor of two of the optimum; only if all releases are
//    equal.
ShopBound open_shop_bound(const std::vector<ShopJob>& jobs);

}  // namespace tutti::sim
