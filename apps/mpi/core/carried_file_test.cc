// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/carried_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "base/temporary_directory.h"
#include "client/cluster_file.h"
#include "client/fake_node.h"

namespace tutti::mpi {
namespace {

using ::testing::HasSubstr;

constexpr auto kInside = std::numeric_limits<std::uint64_t>::max();

std::vector<std::byte> bytes(std::size_t size, char value) {
  return std::vector<std::byte>(size, std::byte(value));
}

class CarriedFileTest : public ::testing::Test {
 protected:
  CarriedFileTest() {
    disk_.files["data"] = bytes(10000, 'a');
    disk_.inodes["data"] = 7;
  }

  CarriedFile::Options options(std::uint64_t inode = 7) {
    return {[this] { return connect(); }, "data", true, true, inode};
  }
  Result<std::shared_ptr<Client>> connect() {
    ClientOptions options{.cluster = {}, .application = 3};
    options.cluster.stripe_size = Bytes(4096);
    options.cluster.nodes = {{"carried-a", "local:carried-a", {0, 1}}, {"carried-b", "local:carried-b", {2}}};
    options.give_up = std::chrono::seconds(1);
    auto client = Client::connect(std::move(options));
    if (!client) return Failure(client.error());
    return std::shared_ptr<Client>(std::move(*client));
  }

  // Nodes use the disk on their own threads.
  std::vector<std::byte> on_disk() {
    const std::lock_guard lock(disk_.mutex);
    return disk_.files["data"];
  }

  FakeDisk disk_;
  FakeNode a_{disk_, "carried-a"}, b_{disk_, "carried-b"};
};

TEST_F(CarriedFileTest, ReadsAndWritesListsAndFindsTheEnd) {
  CarriedFile file(options());
  auto one = bytes(5000, 'b'), two = bytes(300, 'c');
  ASSERT_TRUE(file.write(std::vector<FilePart>{{3000, one.data(), 5000}, {9900, two.data(), 300}}, {}));
  EXPECT_EQ(on_disk().size(), 10200u);
  auto back = bytes(6000, 'x');
  const auto inside = file.read(std::vector<FilePart>{{2999, back.data(), 5002}, {9900, back.data() + 5002, 300}}, {});
  EXPECT_EQ(*inside, kInside);
  EXPECT_EQ(back[0], std::byte('a'));
  EXPECT_EQ(back[1], std::byte('b'));
  EXPECT_EQ(back[5001], std::byte('a'));
  EXPECT_EQ(back[5301], std::byte('c'));
  const auto end = file.read(
      std::vector<FilePart>{{20000, back.data(), 9000 - 3900}, {10150, back.data() + 5100, 100}, {0, back.data(), 1}},
      {});
  EXPECT_EQ(*end, 10200u);
  EXPECT_EQ(back[5149], std::byte('c'));
  EXPECT_EQ(back[5301], std::byte('c')) << "memory for bytes after the end is not changed";
  EXPECT_EQ(back[0], std::byte('a'));
  EXPECT_TRUE(file.sync());
}

TEST_F(CarriedFileTest, CallsIssuedWhileTheOperationIsUnderWay) {
  CarriedFile file(options());
  ASSERT_TRUE(file.open());
  a_.stall();
  auto data = bytes(100, 'b');
  bool issued = false;
  const Stamp stamp = file.stamp_together(Bytes(30000));
  ASSERT_TRUE(file.write(std::vector<FilePart>{{0, data.data(), 100}}, {.stamp = &stamp,
                                                                        .issued =
                                                                            [&] {
                                                                              issued = true;
                                                                              a_.go_on();
                                                                              b_.go_on();
                                                                            },
                                                                        .delay = std::chrono::milliseconds(1)}));
  EXPECT_TRUE(issued);
  EXPECT_EQ(on_disk()[0], std::byte('b'));
}

TEST_F(CarriedFileTest, RefusesAnotherFileOfTheSameName) {
  CarriedFile file(options(8));
  const auto opened = file.open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(opened.error().message, HasSubstr("tutti_directory"));
}

TEST_F(CarriedFileTest, LostNodesAreAnErrorWithinTheTimeLimit) {
  CarriedFile file(options());
  ASSERT_TRUE(file.open());
  a_.die();
  b_.die();
  auto data = bytes(10, 'b');
  const auto written = file.write(std::vector<FilePart>{{0, data.data(), 10}}, {});
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("cannot write data through the nodes"));
  file.prefetch(std::vector<Extent>{{0, 100}});  // errors are ignored
}

TEST(FindInCluster, IsRelativeToTheServedDirectory) {
  TemporaryDirectory directory;
  std::filesystem::create_directories(directory / "served/run");
  std::filesystem::create_directory_symlink(directory / "served", directory / "link");
  std::ofstream(directory / "served/run/out").flush();
  std::ofstream(directory / "outside").flush();
  ClusterFile file;
  file.cluster.nodes = {{"a", "local:a", {0}}};
  ASSERT_TRUE(save_cluster_file(file, directory / "cluster.toml"));
  const auto unknown = find_in_cluster({directory.path(), ""}, directory / "served/run/out");
  EXPECT_THAT(unknown.error().message, HasSubstr("TUTTI_DIRECTORY"));
  file.defaults.directory = directory / "link";
  file.defaults.device = "hdd-7200";
  ASSERT_TRUE(save_cluster_file(file, directory / "cluster.toml"));
  const auto found = find_in_cluster({directory.path(), ""}, directory / "served/run/out");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->path, "run/out");
  EXPECT_EQ(found->cluster, directory / "cluster.toml");
  EXPECT_TRUE(found->disks);
  EXPECT_EQ(find_in_cluster({directory.path(), ""}, directory / "outside").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(find_in_cluster({directory.path(), directory.path()}, directory / "outside")->path, "outside");
  EXPECT_FALSE(find_in_cluster({directory / "none.toml", ""}, directory / "outside"));
  EXPECT_EQ(find_in_cluster({directory.path(), directory / "gone"}, directory / "outside").error().code,
            ErrorCode::kNotFound);
}

}  // namespace
}  // namespace tutti::mpi
