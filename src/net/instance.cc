// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string>

#include "net/crypto.h"
#include "net/transport.h"

namespace tutti::net {
namespace {

// If the kernel does not report its boot, every process has a boot of its own. So no two of them are taken for
// processes of one machine.
wire::Instance make_instance() {
  const wire::Nonce random = random_nonce();
  wire::Instance instance;
  std::memcpy(&instance.process, random.data(), sizeof instance.process);
  std::copy_n(random.begin() + sizeof instance.process, instance.boot.size(), instance.boot.begin());
  std::string digits;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), digits);
  std::erase(digits, '-');
  if (digits.size() != 2 * instance.boot.size() ||
      !std::ranges::all_of(digits, [](unsigned char c) { return std::isxdigit(c) != 0; }))
    return instance;
  for (std::size_t i = 0; i < instance.boot.size(); ++i) {
    unsigned value = 0;
    std::from_chars(digits.data() + 2 * i, digits.data() + 2 * i + 2, value, 16);
    instance.boot[i] = static_cast<std::byte>(value);
  }
  return instance;
}

}  // namespace

const wire::Instance& own_instance() {
  static const wire::Instance instance = make_instance();
  return instance;
}

}  // namespace tutti::net
