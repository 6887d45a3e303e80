// SPDX-License-Identifier: Apache-2.0
// File::read_to() and File::opened().
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <tutti/client.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/prng.h"
#include "client/fake_node.h"

namespace tutti {
namespace {

constexpr std::size_t kStripe = 1 << 20;

class ReadToTest : public testing::TestWithParam<bool> {  // with checksums
 protected:
  void SetUp() override {
    Cluster cluster;
    for (TargetId i = 0; i < 2; ++i) {
      const auto name = "read-to-test-" + std::to_string(i);
      nodes_.push_back(std::make_unique<FakeNode>(disk_, name));
      cluster.nodes.push_back({name, "local:" + name, {i}});
    }
    cluster.stripe_size = Bytes(kStripe);
    auto client = Client::connect({.cluster = cluster, .application = 77, .job = "test", .checksums = GetParam()});
    ASSERT_TRUE(client) << client.error().message;
    client_ = std::move(*client);
    Prng random(3);
    model_.resize(3 * kStripe + 12345);
    for (auto& byte : model_) byte = static_cast<std::byte>(random());
    auto file = client_->open("file", {.read = true, .write = true, .create = true});
    ASSERT_TRUE(file);
    file_ = *file;
    ASSERT_TRUE(file_->write(0, model_));
    char name[] = "/tmp/tutti-read-to-XXXXXX";
    local_ = Descriptor(mkstemp(name));
    unlink(name);
  }
  std::vector<std::byte> local(std::uint64_t at, std::size_t length) const {
    std::vector<std::byte> bytes(length);
    EXPECT_EQ(pread(local_.get(), bytes.data(), length, static_cast<off_t>(at)), static_cast<ssize_t>(length));
    return bytes;
  }

  FakeDisk disk_;
  std::vector<std::unique_ptr<FakeNode>> nodes_;
  std::unique_ptr<Client> client_;
  std::shared_ptr<File> file_;
  std::vector<std::byte> model_;
  Descriptor local_;
};

TEST_P(ReadToTest, AnyRangeArrivesAtItsPlace) {
  Prng random(4);
  const std::vector<std::size_t> lengths{0,       1,       4096,        64 << 10,   (64 << 10) + 1,
                                         700'000, kStripe, kStripe + 1, 5 * kStripe};
  for (int round = 0; round < 60; ++round) {
    const std::uint64_t stripe = random.below(5) * kStripe;
    const std::uint64_t offset = random.chance(0.5) ? stripe : random.below(model_.size() + 1000);
    const std::size_t length = lengths[random.below(lengths.size())];
    const std::uint64_t at = random.below(100'000);
    const std::size_t expected = offset >= model_.size() ? 0 : std::min(length, model_.size() - offset);
    ASSERT_EQ(ftruncate(local_.get(), 0), 0);
    const auto got = file_->read_to(local_.get(), at, offset, length);
    ASSERT_TRUE(got) << got.error().message;
    ASSERT_EQ(*got, expected) << offset << " " << length;
    struct stat status {};
    ASSERT_EQ(fstat(local_.get(), &status), 0);
    ASSERT_EQ(static_cast<std::uint64_t>(status.st_size), expected > 0 ? at + expected : 0);
    const auto begin = model_.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(offset, model_.size()));
    const auto bytes = local(at, expected);
    ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), begin)) << offset << " " << length;
  }
}

TEST_P(ReadToTest, AnErrorOfTheLocalFileIsReportedAndTheConnectionStaysUsable) {
  const Descriptor unwritable(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (const std::size_t length : {std::size_t{1000}, kStripe, 2 * kStripe}) {
    const auto got = file_->read_to(unwritable.get(), 0, 0, length);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().system, EBADF);
  }
  ASSERT_EQ(file_->read_to(local_.get(), 0, kStripe, kStripe).value(), kStripe);
  const auto bytes = local(0, kStripe);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), model_.begin() + kStripe));
}

TEST_P(ReadToTest, AFileKnowsItsStatusWhenItWasOpened) {
  const auto again = client_->open("file", {});
  ASSERT_TRUE(again);
  const FileStatus opened = (*again)->opened();
  const auto now = file_->status();
  ASSERT_TRUE(now);
  EXPECT_EQ(opened.size, model_.size());
  EXPECT_EQ(opened.inode, now->inode);
  EXPECT_EQ(opened.mode, now->mode);
  ASSERT_TRUE(file_->truncate(10));
  EXPECT_EQ((*again)->opened().size, model_.size()) << "without a request";
}

INSTANTIATE_TEST_SUITE_P(Checksums, ReadToTest, testing::Bool());

}  // namespace
}  // namespace tutti
