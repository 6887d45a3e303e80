// SPDX-License-Identifier: Apache-2.0
#include "net/crypto.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstring>

namespace tutti::net {
namespace {

constexpr std::size_t kSmallestKey = 32;
constexpr std::size_t kLargestKey = 4096;

void append(std::vector<std::byte>& text, std::span<const std::byte> part) {
  const std::uint64_t size = part.size();
  const auto length = std::as_bytes(std::span(&size, 1));
  text.insert(text.end(), length.begin(), length.end());
  text.insert(text.end(), part.begin(), part.end());
}

// Call before any other function of OpenSSL. At the end of the process OpenSSL would free its tables while a thread
// that checks credentials may still use them (stream_handshake.cc).
void keep_openssl_to_the_end() {
  [[maybe_unused]] static const int initialised = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
}

Failure system_failure(const std::string& path, const char* what) {
  const int error = errno;
  return fail(error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
              fmt::format("{} {}: {}", what, path, std::strerror(error)), error);
}

}  // namespace

wire::Nonce random_nonce() {
  keep_openssl_to_the_end();
  wire::Nonce nonce;
  const bool filled = RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) == 1;
  assert(filled);
  (void)filled;
  return nonce;
}

wire::Digest authenticate(const ClusterKey& key, std::string_view purpose,
                          std::initializer_list<std::span<const std::byte>> parts) {
  keep_openssl_to_the_end();
  std::vector<std::byte> text;
  append(text, std::as_bytes(std::span(purpose)));
  for (const auto& part : parts) append(text, part);
  wire::Digest digest;
  unsigned length = 0;
  const auto* done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
           text.size(), reinterpret_cast<unsigned char*>(digest.data()), &length);
  assert(done != nullptr && length == digest.size());
  (void)done;
  return digest;
}

bool same_digest(const wire::Digest& a, const wire::Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Result<ClusterKey> load_key(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return system_failure(path, "cannot open the cluster key");
  struct stat attributes {};
  ClusterKey key(kLargestKey + 1);
  const bool known = ::fstat(file, &attributes) == 0;
  const auto size = ::read(file, key.data(), key.size());
  ::close(file);
  if (!known || size < 0) return system_failure(path, "cannot read the cluster key");
  if ((attributes.st_mode & 077) != 0) {
    return fail(ErrorCode::kDenied, fmt::format("other users can read the cluster key {0}: run chmod 600 {0}", path));
  }
  if (static_cast<std::size_t>(size) < kSmallestKey || static_cast<std::size_t>(size) > kLargestKey) {
    return fail(ErrorCode::kInvalid, fmt::format("the cluster key {} has {} bytes, not 32 to 4096: make one with "
                                                 "head -c 32 /dev/urandom > {}",
                                                 path, size, path));
  }
  key.resize(static_cast<std::size_t>(size));
  return key;
}

}  // namespace tutti::net
