// SPDX-License-Identifier: Apache-2.0
// Which node gets requests about names, and names without waiting.
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "base/temporary_directory.h"
#include "client/fake_node.h"
#include "tutti/client.h"

namespace tutti {
namespace {

constexpr OpenOptions kCreate{.read = true, .write = true, .create = true};

class NamesTest : public testing::Test {
 protected:
  // `unix`: nodes with Unix sockets, all on this machine.
  void start(bool unix) {
    ClientOptions options{.cluster = {}, .application = 77, .job = "test"};
    for (TargetId i = 0; i < 4; ++i) {
      const std::string name = "names-test-" + std::to_string(i), socket = directory_.path() + "/" + name;
      nodes_.push_back(std::make_unique<FakeNode>(disk_, name, wire::Limits{}, unix ? socket : ""));
      options.cluster.nodes.push_back({name, unix ? "unix:" + socket : "local:" + name, {i}});
    }
    auto client = Client::connect(options);
    ASSERT_TRUE(client) << client.error().message;
    client_ = std::move(*client);
  }
  // How many nodes have created files.
  std::ptrdiff_t creators() {
    return std::ranges::count_if(nodes_, [](const auto& node) { return node->creates() > 0; });
  }
  // The result of a call that does not wait.
  template <typename T, typename Call>
  static Result<T> wait_for(const Call& call) {
    auto promise = std::make_shared<std::promise<Result<T>>>();
    auto result = promise->get_future();
    call([promise](Result<T> value) { promise->set_value(std::move(value)); });
    if (result.wait_for(std::chrono::seconds(60)) != std::future_status::ready)
      return fail(ErrorCode::kTimeout, "done was not called");
    return result.get();
  }

  const TemporaryDirectory directory_;
  FakeDisk disk_;
  std::vector<std::unique_ptr<FakeNode>> nodes_;
  std::unique_ptr<Client> client_;
};

TEST_F(NamesTest, OnOneMachineOneNodeChangesTheNamesOfADirectory) {
  start(true);
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(client_->open("folder/" + std::to_string(i), kCreate));
  EXPECT_EQ(creators(), 1);
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(client_->open(std::to_string(i) + "/file", kCreate));
  EXPECT_EQ(creators(), 4) << "all directories have the same node";
}

TEST_F(NamesTest, OtherwiseNodesTakeTurns) {
  start(false);
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(client_->open("folder/" + std::to_string(i), kCreate));
  EXPECT_EQ(creators(), 4);
}

TEST_F(NamesTest, WithoutWaiting) {
  start(false);
  using Opened = std::shared_ptr<File>;
  const auto file = wait_for<Opened>([&](auto done) { client_->open_async("a", kCreate, std::move(done)); });
  ASSERT_TRUE(file);
  ASSERT_TRUE((*file)->write(0, std::vector<std::byte>(10)));
  const auto status = wait_for<FileStatus>([&](auto done) { client_->status_async("a", true, std::move(done)); });
  ASSERT_TRUE(status);
  EXPECT_EQ(status->size, 10);
  EXPECT_EQ(wait_for<FileStatus>([&](auto done) { client_->status_async("b", true, std::move(done)); }).error().system,
            ENOENT);
  EXPECT_EQ(wait_for<Opened>([&](auto done) { client_->open_async("../b", {}, std::move(done)); }).error().code,
            ErrorCode::kInvalid);
  // Not served by these nodes: the error arrives.
  EXPECT_EQ(wait_for<void>([&](auto done) { client_->rename_async("a", "b", 0, std::move(done)); }).error().system,
            ENOTSUP);
}

TEST_F(NamesTest, ClosingTheClientEndsRequestsWithoutWaiting) {
  start(false);
  for (auto& node : nodes_) node->stall();
  auto promise = std::make_shared<std::promise<Result<FileStatus>>>();
  auto result = promise->get_future();
  client_->status_async("a", true, [promise](Result<FileStatus> value) { promise->set_value(std::move(value)); });
  client_.reset();
  ASSERT_EQ(result.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_EQ(result.get().error().code, ErrorCode::kStopped);
}

// They may wait in the socket behind writes for which the node has no memory, or in its queue for names.
TEST_F(NamesTest, ABusyNodeIsNotLost) {
  ClientOptions options{.cluster = {}, .application = 77, .job = "test"};
  nodes_.push_back(std::make_unique<FakeNode>(disk_, "names-test-busy"));
  options.cluster.nodes.push_back({"names-test-busy", "local:names-test-busy", {0}});
  options.cluster.request_timeout = std::chrono::milliseconds(300);
  client_ = Client::connect(options).value();
  for (const wire::Progress& progress : {wire::Progress{.moving = true}, wire::Progress{.naming = true}}) {
    const std::string name = progress.moving ? "moving" : "naming";
    nodes_[0]->stall();
    auto promise = std::make_shared<std::promise<Result<std::shared_ptr<File>>>>();
    auto opened = promise->get_future();
    client_->open_async(name, {.write = true, .create = true, .exclusive = true},
                        [promise](Result<std::shared_ptr<File>> file) { promise->set_value(std::move(file)); });
    for (int i = 0; i < 60; ++i) {
      nodes_[0]->report(progress);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_EQ(nodes_[0]->held(), 1u) << "it is sent once";
    nodes_[0]->go_on();
    ASSERT_EQ(opened.wait_for(std::chrono::seconds(60)), std::future_status::ready);
    const auto file = opened.get();
    EXPECT_TRUE(file) << file.error().message;
  }
}

}  // namespace
}  // namespace tutti
