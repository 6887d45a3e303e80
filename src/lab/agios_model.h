// SPDX-License-Identifier: Apache-2.0
// The servers and programs of the AGIOS paper (section V-A), and runs of them with and without prediction.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lab/tools.h"
#include "sched/prediction/predicted_queues.h"

namespace tutti::lab {

// One cell of figures 5 to 7: MPI-IO Test, 128 requests of 16 KiB or 8 of 256 KiB per process.
struct AgiosTest {
  Pattern pattern = Pattern::kContiguous;
  bool large = false;
  Direction direction = Direction::kRead;
  unsigned processes = 8;  // of each application
  unsigned applications = 4;

  std::string pattern_name() const { return pattern == Pattern::kContiguous ? "contiguous" : "1-D strided"; }
  std::string size_name() const { return large ? "large" : "small"; }
  std::string direction_name() const { return direction == Direction::kRead ? "read" : "write"; }
  // The pattern in which the scheduler merges all that can be merged without prediction, says the paper.
  bool contiguous_small() const { return pattern == Pattern::kContiguous && !large; }
};

// What the paper does not say about its servers. The values were fitted, with seeds below 3000, to three figures of the
// paper: the mean gains of its scheduler without prediction, and that reads took 83.8% less time than writes.
struct AgiosServers {
  Duration request_cost = std::chrono::microseconds(150);  // per batch
  Duration write_cost = std::chrono::microseconds(820);    // per batch of writes in addition, until they are safe
  double read_bandwidth = 100e6;                           // of the server's thread, bytes per second
  double write_bandwidth = 17.5e6;
  unsigned depth = 64;  // batches that the scheduler passes to the queue of dNFSp's server
};

struct AgiosPolicy {
  std::string name = "fifo";
  PolicyOptions options{};
};

// Section III exactly as published, merging in objects, with a limit of requests per batch that is never reached.
AgiosPolicy agios_paper_policy();
// The same with the option `prediction`.
AgiosPolicy agios_predicting_policy(const std::string& prediction);

using AgiosPredictions = std::vector<std::shared_ptr<const PredictedQueues>>;  // by server

// Each with one value per seed.
struct AgiosRun {
  std::vector<double> seconds;  // end of the last application; of several iterations the mean phase from the second on
  std::vector<double> batches;  // requests per batch

  double mean_seconds(WithoutSeed without = {}) const { return mean_of(seconds, without); }
  double mean_batch(WithoutSeed without = {}) const { return mean_of(batches, without); }
};

// What live nodes need of it: the costs per batch and byte are those of a modelled device.
void fit_to_nodes(const AgiosTest& test, const AgiosServers& servers, Scenario& scenario);

Scenario agios_scenario(const AgiosTest& test, const AgiosServers& servers, const AgiosPolicy& policy,
                        std::uint64_t seed);

// Runs with `seeds` from kFirstSeed on. More iterations: the program again, after computing for a second.
struct AgiosRepeat {
  unsigned seeds = 1;
  unsigned iterations = 1;
};
Result<AgiosRun> run_agios(const AgiosTest& test, const AgiosServers& servers, const AgiosPolicy& policy,
                           const AgiosRepeat& repeat, const AgiosPredictions& predictions = {});

// Combines traces of earlier runs of the test under the paper's policy, with seeds that no other run has.
Result<AgiosPredictions> record_agios(const AgiosTest& test, const AgiosServers& servers, unsigned traces);

}  // namespace tutti::lab
