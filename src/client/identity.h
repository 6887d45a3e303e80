// SPDX-License-Identifier: Apache-2.0
// Who we are: the application's number and a name for people, from what the batch system put into the environment.
#pragma once

#include <tutti/sched.h>

#include <functional>
#include <string>

namespace tutti {

// The value of an environment variable, or nullptr.
using Environment = std::function<const char*(const char* name)>;

// TUTTI_APP, SLURM_JOB_ID, PBS_JOBID, LSB_JOBID, FLUX_JOB_ID, JOB_ID, whichever comes first; else the session. A number
// stands for itself (the digits before a '.' or '[' count), other text is hashed to one.
ApplicationId application_from(const Environment& environment);

// TUTTI_PROCESSES, else the number of processes that were started together with this one (SLURM_STEP_NUM_TASKS,
// OMPI_COMM_WORLD_SIZE, PMI_SIZE), else 1. What is no number counts as not there.
std::uint32_t processes_from(const Environment& environment);

// TUTTI_JOB, else the batch system's name of the job, else the program's. At most 200 bytes.
std::string job_from(const Environment& environment);

}  // namespace tutti
