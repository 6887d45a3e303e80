// SPDX-License-Identifier: Apache-2.0
// The identity of this process's job: number, name, number of processes and order id.
#pragma once

#include <tutti/job.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::job {

// Equal in all processes of a job if their environments are equal. No communication is needed.
struct Identity {
  std::uint64_t number = 0;       // the batch system's job number, for output
  bool numbered = false;          // the number is from TUTTI_APP or the batch system, not the session
  ApplicationId application = 0;  // the number if it fits into 32 bits, else its hash; for statistics
  OrderId order = 0;              // the job with the lower id is served first; two jobs may share one
  std::uint32_t processes = 1;    // at least 1
  std::string name;               // the same in every run; at most 200 bytes
};

// The value of an environment variable, or nullptr.
using Environment = std::function<const char*(const char* name)>;

struct IdentityOptions {
  // Set by the program. If `application` is set, processes and order are not read from the environment, because one
  // program may then be several applications.
  std::optional<ApplicationId> application{};
  std::optional<OrderId> order{};
  std::optional<std::uint32_t> processes{};
  std::string name{};
  OrderRange order_ids{};  // of the site

  std::uint64_t session = 0;  // the number if no batch system sets one
  std::string program{};      // the name if no variable sets one
};

// number     TUTTI_APP, else SLURM_JOB_ID, PBS_JOBID, LSB_JOBID, FLUX_JOB_ID, JOB_ID, else the session. Digits before a
//            '.' or '[' are the number; other text is hashed to 0..32767.
// order      TUTTI_ORDER, else a number in `order_ids` from a hash of the job number.
// processes  TUTTI_PROCESSES, else SLURM_STEP_NUM_TASKS, OMPI_COMM_WORLD_SIZE, PMI_SIZE, as srun and mpirun set them,
//            else 1.
// An empty variable is the same as an unset one. kInvalid names the variable, its value and the valid values.
Result<Identity> identify(const Environment& environment, const IdentityOptions& options);

// TUTTI_JOB, else SLURM_JOB_NAME, PBS_JOBNAME, LSB_JOBNAME, JOB_NAME, else TUTTI_APP if it is not a number, else
// `program`. At most 200 bytes.
std::string job_name(const Environment& environment, std::string_view program);

// "LOW-HIGH" or one number.
Result<OrderRange> parse_order_range(std::string_view text);

}  // namespace tutti::job
