// SPDX-License-Identifier: Apache-2.0
// What no schedule can beat: lower bounds of the concurrent open shop problem.
//
// Jobs have a demand on each machine, may be served in any order and interrupted at will, and are done when their last
// machine is. Finding the least mean completion is NP-hard for two machines; these bounds are not.
#pragma once

#include <string>
#include <vector>

namespace tutti::sim {

struct ShopJob {
  double release = 0;          // seconds
  std::vector<double> demand;  // seconds on each machine, all jobs alike many
};

struct ShopBound {
  double mean_flow = 0;  // least mean of completion minus release, seconds
  std::string which;     // the bound that gave it
};

// The best of three:
//   "bottleneck": each job alone needs its largest demand;
//   "one server": the shortest remaining first on the server where that is worst, the others taken as infinitely fast;
//   "parallel inequalities": the dual of the linear program over all servers, by the primal-dual method of Mastrolilli,
//    Queyranne, Schulz, Svensson and Uhan (2010), within a factor of two of the optimum; for jobs released together.
ShopBound open_shop_bound(const std::vector<ShopJob>& jobs);

}  // namespace tutti::sim
