// SPDX-License-Identifier: Apache-2.0
// One process at a time, and a way to find it.
#pragma once

#include <sys/types.h>
#include <tutti/base.h>

#include <memory>
#include <optional>
#include <string>

namespace tutti {

// A file with this process's number that is locked as long as the process lives: whoever holds the lock is alive,
// whatever numbers are lying around.
class PidFile {
 public:
  // kDuplicate if another process holds it.
  static Result<std::unique_ptr<PidFile>> take(const std::string& path);
  // The process that holds it, or nothing: there is none, or it is dead.
  static std::optional<pid_t> holder(const std::string& path);

  ~PidFile();  // removes the file
  PidFile(const PidFile&) = delete;
  PidFile& operator=(const PidFile&) = delete;

 private:
  PidFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  const std::string path_;
  const int descriptor_;
};

}  // namespace tutti
