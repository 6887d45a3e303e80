// SPDX-License-Identifier: Apache-2.0
#include "net/munge.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#ifdef TUTTI_HAVE_MUNGE
#include <munge.h>
#endif

namespace tutti::net {

#ifdef TUTTI_HAVE_MUNGE

namespace {

constexpr std::size_t kMostEntry = 1 << 20;  // bytes of a user's entry

class Context {
 public:
  Context() {
    const char* socket = std::getenv("TUTTI_MUNGE_SOCKET");
    if (socket == nullptr) return;
    context_ = ::munge_ctx_create();
    if (context_ != nullptr) ::munge_ctx_set(context_, MUNGE_OPT_SOCKET, socket);
  }
  ~Context() {
    if (context_ != nullptr) ::munge_ctx_destroy(context_);
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  munge_ctx_t get() const { return context_; }

 private:
  munge_ctx_t context_ = nullptr;
};

// MUNGE authenticates uid and gid. The other groups are looked up on this machine.
void add_groups(wire::Identity& identity) {
  std::vector<char> text(4096);
  passwd entry{};
  passwd* found = nullptr;
  while (::getpwuid_r(identity.uid, &entry, text.data(), text.size(), &found) == ERANGE && text.size() < kMostEntry)
    text.resize(2 * text.size());
  if (found == nullptr) return;
  int count = 64;
  std::vector<gid_t> groups(static_cast<std::size_t>(count));
  if (::getgrouplist(entry.pw_name, identity.gid, groups.data(), &count) < 0) {
    groups.resize(static_cast<std::size_t>(count));  // the first call has counted them
    if (::getgrouplist(entry.pw_name, identity.gid, groups.data(), &count) < 0) return;
  }
  identity.groups.assign(groups.begin(), groups.begin() + count);
}

class MungeService final : public CredentialService {
 public:
  Result<std::string> make(const wire::Digest& content) override;
  Result<wire::Identity> verify(const std::string& credential, const wire::Digest& content) override;
};

Result<std::string> MungeService::make(const wire::Digest& content) {
  const Context context;
  char* credential = nullptr;
  const auto error = ::munge_encode(&credential, context.get(), content.data(), static_cast<int>(content.size()));
  if (error != EMUNGE_SUCCESS) {
    return fail(ErrorCode::kDenied, fmt::format("munge: {}; is munged running?", ::munge_strerror(error)));
  }
  std::string text(credential);
  std::free(credential);
  return text;
}

Result<wire::Identity> MungeService::verify(const std::string& credential, const wire::Digest& content) {
  const Context context;
  void* payload = nullptr;
  int size = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  const auto error = ::munge_decode(credential.c_str(), context.get(), &payload, &size, &uid, &gid);
  const bool same = payload != nullptr && size == static_cast<int>(content.size()) &&
                    std::memcmp(payload, content.data(), content.size()) == 0;
  std::free(payload);
  if (error != EMUNGE_SUCCESS) return fail(ErrorCode::kDenied, fmt::format("munge: {}", ::munge_strerror(error)));
  if (!same) return fail(ErrorCode::kDenied, "munge: the credential belongs to another handshake");
  wire::Identity identity{.uid = uid, .gid = gid};
  add_groups(identity);
  return identity;
}

}  // namespace

bool munge_available() {
  return true;
}

#else

namespace {

class MungeService final : public CredentialService {
 public:
  Result<std::string> make(const wire::Digest&) override { return Failure(missing()); }
  Result<wire::Identity> verify(const std::string&, const wire::Digest&) override { return Failure(missing()); }

 private:
  static Error missing() { return {ErrorCode::kInvalid, "built without MUNGE (install libmunge-dev and build again)"}; }
};

}  // namespace

bool munge_available() {
  return false;
}

#endif

const std::shared_ptr<CredentialService>& munge_service() {
  static const std::shared_ptr<CredentialService> service = std::make_shared<MungeService>();
  return service;
}

}  // namespace tutti::net
