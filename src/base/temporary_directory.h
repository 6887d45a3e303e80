// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tutti {

// A new directory for this user alone, which goes with its object and all that is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }  // empty: it could not be made, and errno says why
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace tutti
