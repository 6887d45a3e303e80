// SPDX-License-Identifier: Apache-2.0
// Production clients and a live node through real sockets: writes beyond the memory of the node.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tutti/client.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "base/temporary_directory.h"
#include "node/node.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;

class PulledPayloads : public testing::Test {
 protected:
  void start(Bytes write_buffers) {
    std::filesystem::create_directory(base_ / "data");
    NodeOptions options;
    options.directory = base_ / "data";
    options.listen = {"unix:" + base_ / "socket"};
    options.write_buffers = write_buffers;
    auto node = Node::start(options);
    ASSERT_TRUE(node) << node.error().message;
    node_ = std::move(*node);
  }
  std::unique_ptr<Client> connect(bool checksums = false) {
    ClientOptions options;
    options.cluster.nodes = {{"node0", "unix:" + base_ / "socket", {0}}};
    options.checksums = checksums;
    auto client = Client::connect(options);
    EXPECT_TRUE(client) << client.error().message;
    return std::move(*client);
  }
  std::string content(const std::string& path) {
    const std::string name = base_ / "data" + "/" + path;
    std::string bytes(std::filesystem::file_size(name), '\0');
    std::ifstream(name).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  }
  static std::string text(std::size_t size, unsigned seed) {
    std::string text(size, '\0');  // each 4 KiB differ from the ones before
    for (std::size_t i = 0; i < size; i += 512) text[i] = static_cast<char>((i / 512 * 7 + i / 4096 + seed) & 0xff);
    return text;
  }

  TemporaryDirectory base_;
  std::unique_ptr<Node> node_;
};

TEST_F(PulledPayloads, LargeWritesOfSeveralClientsArrive) {
  start(Bytes(8 << 20));  // nothing larger than 64 KiB is sent with its write
  std::vector<std::thread> writers;
  for (unsigned i = 0; i < 3; ++i)
    writers.emplace_back([this, i] {
      const auto client = connect(i == 1);
      const auto file = client->open("f" + std::to_string(i), {.write = true, .create = true}).value();
      const std::string data = text(24'000'001, i);
      for (std::size_t at = 0; at < data.size(); at += 5'000'000) {
        const auto part =
            std::as_bytes(std::span(data)).subspan(at, std::min<std::size_t>(5'000'000, data.size() - at));
        const auto written = file->write(at, part);
        ASSERT_TRUE(written) << written.error().message;
      }
      EXPECT_TRUE(file->write(0, std::as_bytes(std::span(data))));
    });
  for (auto& writer : writers) writer.join();
  for (unsigned i = 0; i < 3; ++i) EXPECT_TRUE(content("f" + std::to_string(i)) == text(24'000'001, i)) << i;
  EXPECT_EQ(node_->statistics().buffer_bytes, 0u);
}

TEST_F(PulledPayloads, AsynchronousWritesBeyondTheCreditArrive) {
  start(Bytes(64 << 20));
  const auto client = connect();
  const auto file = client->open("f", {.write = true, .create = true}).value();
  const std::string data = text(128 << 20, 3);  // four times the credit
  std::atomic<int> left{32};
  std::promise<void> all;
  for (std::size_t i = 0; i < 32; ++i)
    file->write_async({{i << 22, std::as_bytes(std::span(data)).subspan(i << 22, 4 << 20)}},
                      [&](const Result<std::size_t>& written) {
                        EXPECT_TRUE(written) << written.error().message;
                        if (--left == 0) all.set_value();
                      });
  ASSERT_EQ(all.get_future().wait_for(60s), std::future_status::ready);
  EXPECT_TRUE(content("f") == data);
}

TEST_F(PulledPayloads, MemoryThatCannotBeReadFailsItsOwnWrite) {
  start(Bytes(8 << 20));
  const auto client = connect();
  const auto file = client->open("f", {.write = true, .create = true}).value();
  constexpr std::size_t kSize = 1 << 20;
  auto* const memory = static_cast<std::byte*>(::mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const auto written = file->write(0, {memory, kSize});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().system, EFAULT);
  const std::string data = text(kSize, 1);
  EXPECT_TRUE(file->write(0, std::as_bytes(std::span(data))));
  EXPECT_TRUE(content("f") == data);
  EXPECT_EQ(file->read(0, {memory, kSize}).error().system, EFAULT);
  EXPECT_EQ(file->read(0, {memory, 100}).error().system, EFAULT);
  std::vector<std::byte> back(kSize);
  EXPECT_EQ(file->read(0, back).value_or(0), kSize);
  EXPECT_TRUE(std::ranges::equal(back, std::as_bytes(std::span(data))));
  ::munmap(memory, kSize);
}

// The first half of the memory can be read: a part of the payload is sent before the kernel finds the rest.
TEST_F(PulledPayloads, MemoryThatCannotBeReadInTheMiddleFailsItsOwnWrite) {
  for (const Bytes buffers : {Bytes(8 << 20), Bytes(64 << 20)}) {  // pulled; with its write
    start(buffers);
    const auto client = connect();
    const auto file = client->open("f", {.write = true, .create = true}).value();
    constexpr std::size_t kSize = 4 << 20;
    auto* const memory =
        static_cast<std::byte*>(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_EQ(::mprotect(memory + kSize / 2, kSize / 2, PROT_NONE), 0);
    const std::string data = text(kSize, 1);
    std::promise<Result<std::size_t>> other;
    file->write_async({{kSize, std::as_bytes(std::span(data))}}, [&](auto done) { other.set_value(std::move(done)); });
    const auto written = file->write(0, {memory, kSize});
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().system, EFAULT);
    auto beside = other.get_future();
    ASSERT_EQ(beside.wait_for(60s), std::future_status::ready);
    EXPECT_TRUE(beside.get()) << "the write beside it succeeds";
    EXPECT_TRUE(file->write(0, std::as_bytes(std::span(data))));
    EXPECT_TRUE(content("f") == data + data);
    for (int i = 0; i < 2000 && node_->statistics().buffer_bytes > 0; ++i) std::this_thread::sleep_for(5ms);
    EXPECT_EQ(node_->statistics().buffer_bytes, 0u);
    ::munmap(memory, kSize);
    node_.reset();
    std::filesystem::remove_all(base_ / "data");
  }
}

// It has a write in the queue and dies before it is asked for the payload, or while it sends it.
TEST_F(PulledPayloads, ClientsThatLeaveDoNotStopOthers) {
  start(Bytes(8 << 20));
  const std::string data = text(16 << 20, 1);
  for (int i = 0; i < 20; ++i) {
    const auto client = connect();
    const auto file = client->open("left", {.write = true, .create = true}).value();
    for (int k = 0; k < 8; ++k)
      file->write_async({{0, std::as_bytes(std::span(data))}}, [](const Result<std::size_t>&) {});
  }
  const auto client = connect();
  const auto file = client->open("f", {.write = true, .create = true}).value();
  EXPECT_TRUE(file->write(0, std::as_bytes(std::span(data))));
  EXPECT_TRUE(content("f") == data);
  for (int i = 0; i < 2000 && node_->statistics().buffer_bytes > 0; ++i) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(node_->statistics().buffer_bytes, 0u);
}

}  // namespace
}  // namespace tutti
