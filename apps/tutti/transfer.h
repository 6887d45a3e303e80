// SPDX-License-Identifier: Apache-2.0
// Copies one file into a cluster, out of it or inside it, for `tutti put`, `get`, `cp` and `cat`.
#pragma once

#include <tutti/client.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "stop_signals.h"
#include "waiting.h"

namespace tutti::cli {

struct FileLocation {
  enum class Where { kLocal, kCluster };
  Where where = Where::kLocal;
  std::string path;  // local "-": standard input or standard output
};

struct Transfer {
  std::string command;  // for messages, such as "put"
  FileLocation from;
  FileLocation to;               // a directory: the file gets the name of `from` in it
  bool sync = true;              // false: as cp, does not wait until the file is on stable storage
  bool only_into = false;        // `to` must be a directory
  bool known_directory = false;  // `to` is a directory of the cluster
};

// The last name of a path, without slashes at its end.
std::string base_name(const std::string& path);

// Copies completely or not at all.
//
// The source is opened and checked before anything is created at the destination. The data is written to a temporary
// file in the directory of the destination (NAME.tutti-tmp.PID-RANDOM), brought to stable storage, given the permission
// bits of the source, and renamed to the destination. Until then an existing destination keeps its content. If the
// transfer fails or a signal stops it, the temporary file is removed.
//
// The new file belongs to the caller. It has the read, write and execute bits of the source, whatever the umask,
// without set-user-id, set-group-id and sticky bit. If the source is standard input or not a regular file, the mode is
// 0644 less the umask.
//
// A destination that is a symbolic link stays a link, and the file it points to is replaced. A local destination that
// is a FIFO, a device, "-", /dev/stdout or /dev/fd/N is written to directly.
//
// Refused without any change: a directory as source; two names of one file; a destination that the caller may not write
// to; a symbolic link to a file that does not exist; in the cluster, anything that is neither a regular file nor a
// directory.
//
// Large files are copied by several threads at once, each with a part of its own, so that reading, sending and writing
// overlap.
//
// Error messages say how much was written and to which file. After kStopped, call signals.end_process().
Result<void> transfer(Client& client, const Transfer& what, StopSignals& signals, Activity& activity);

// Carries out all transfers, several at a time. Each error goes to `failed`, which several threads call. Directories of
// the cluster are synced once, at the end.
//
// Small files for a known directory are sent without asking whether their names exist. Renaming them replaces nothing
// then; if a name exists, its temporary file is removed and the transfer repeated with all checks.
void transfer_all(Client& client, std::span<const Transfer> transfers, StopSignals& signals, Activity& activity,
                  const std::function<void(const Error&)>& failed);

}  // namespace tutti::cli
