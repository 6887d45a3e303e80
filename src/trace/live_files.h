// SPDX-License-Identifier: Apache-2.0
// Trace files on disk.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trace/decode.h"
#include "trace/recorder.h"

namespace tutti::trace {

inline constexpr Bytes kLeastLimit{1 << 20};

struct FilesOptions {
  std::string directory{};  // is created with mode 0700 if it is missing
  std::string name{};       // files are DIRECTORY/NAME.NUMBER.trace
  Bytes limit{256 << 20};   // of all files with this name together; the oldest are removed. At least kLeastLimit.
};

// Writes files with mode 0600. A file ends when it has an eighth of the limit; after a failed write, the next block
// begins a new file. kInvalid: names the wrong option. kIo: the directory cannot be used.
Result<std::unique_ptr<TraceOutput>> make_files(const FilesOptions& options);

// Reads all recordings in these files. A directory stands for the files in it whose name ends in ".trace". Files of one
// recording are joined. Files that cannot be read at all give an error only if no other file can: else they are
// reported in the problems of the first recording.
Result<std::vector<Recording>> read_files(const std::vector<std::string>& paths, Names names);

// What a scheduler may expect, from the recordings in a file or directory (Scheduler::Options::predictions).
struct LoadedPredictions {
  std::shared_ptr<const PredictedQueues> queues{};
  std::size_t traces = 0, requests = 0;
  std::vector<std::string> problems{};  // what could not be used
};
Result<LoadedPredictions> load_predictions(const std::string& path);

// Writes one recording as one file. kIo: names the path.
Result<void> write_file(const Recording& recording, const std::string& path);

// All bytes of a file, which is at most kMostFile long.
inline constexpr std::uint64_t kMostFile = std::uint64_t{1} << 36;
Result<std::vector<std::byte>> read_whole_file(const std::string& path);

}  // namespace tutti::trace
