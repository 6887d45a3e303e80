// SPDX-License-Identifier: Apache-2.0
// Clients of a user whom the node cannot act for.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/temporary_directory.h"
#include "node/node.h"
#include "node/test_client.h"

namespace tutti::node {
namespace {

constexpr UserId kNodeUser = 65534, kOther = 4711;

// Runs in a process of its own, which has no right to act for others: the rights of a process are read once.
[[noreturn]] void send_one_way_messages_as_another_user() {
  if (::geteuid() == 0 && (::setgid(kNodeUser) != 0 || ::setuid(kNodeUser) != 0)) ::_exit(2);
  const TemporaryDirectory base;
  std::filesystem::create_directory(base / "data");
  std::ofstream(base / "key") << std::string(64, '7');
  std::filesystem::permissions(base / "key", std::filesystem::perms::owner_read);
  auto node = Node::start({.directory = base / "data", .listen = {"tcp:127.0.0.1:0"}, .key_file = base / "key"});
  if (!node) ::_exit(3);
  TestClient client((*node)->endpoints().front(), {.key = net::load_key(base / "key").value(),
                                                   .claim = wire::Identity{.uid = kOther, .gid = kOther}});
  constexpr std::uint64_t kTag = 1'000'000;
  for (int i = 0; i < 1000; ++i) client.tell(wire::Renew{}, kTag);
  const auto refused = client.head(client.send(wire::LookupRequest{.path = "f"}));  // replies are in order
  ::_exit(refused.status == EACCES && !client.answered(kTag) ? 0 : 1);
}

// The node would have to keep answers that the client does not read, and that count against no limit. Requests are
// answered with the reason, also after the client has accepted a credit.
TEST(UnservedUserDeathTest, OneWayMessagesAreNotAnswered) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // starts the program again
  EXPECT_EXIT(send_one_way_messages_as_another_user(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tutti::node
