// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/settings.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/temporary_directory.h"
#include "mpi/core/mount_file.h"

namespace tutti::mpi {
namespace {

using ::testing::HasSubstr;

Lookup from(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* key) -> std::optional<std::string> {
    const auto found = values.find(key);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

TEST(Settings, HintsReplaceVariablesWhichReplaceTheConfiguration) {
  const auto read =
      read_settings({from({{"tutti_plan", "timed"}}), from({{"TUTTI_PLAN", "paper"}, {"TUTTI_STRIPE_SIZE", "64KiB"}}),
                     from({{"plan", "resonant"}, {"stripe_size", "1MiB"}, {"stripe_count", "4"}})},
                    {});
  ASSERT_FALSE(read.error);
  EXPECT_EQ(read.settings.plan.kind, collective::PlanKind::kTimed);
  EXPECT_EQ(read.settings.stripe_size, Bytes(65536));
  EXPECT_EQ(read.settings.stripe_count, 4u);
}

TEST(Settings, WrongValuesNameTheKeyAndWhatIsAccepted) {
  for (const auto& [key, value] : std::map<std::string, std::string>{{"tutti_plan", "fast"},
                                                                     {"tutti_agents_per_target", "1025"},
                                                                     {"tutti_list_io", "0"},
                                                                     {"tutti_buffer", "-1"},
                                                                     {"striping_unit", "many"},
                                                                     {"striping_factor", "-2"},
                                                                     {"tutti_app", "4294967296"},
                                                                     {"tutti_phase_gap", "-1s"},
                                                                     {"tutti_turn", "1"},
                                                                     {"tutti_route", "node"},
                                                                     {"tutti_network", "fast"},
                                                                     {"tutti_cluster", std::string(1024, 'a')},
                                                                     {"tutti_give_up", "0s"}}) {
    const auto read = read_settings({from({{key, value}}), {}, {}}, {});
    ASSERT_TRUE(read.error) << key;
    EXPECT_EQ(read.error->where, SettingsError::Where::kHint);
    EXPECT_THAT(read.error->message, HasSubstr(key));
    EXPECT_THAT(read.error->message, HasSubstr("accepted: "));
  }
  EXPECT_EQ(read_settings({{}, from({{"TUTTI_REPORT", "yes"}}), {}}, {}).error->where, SettingsError::Where::kSite);
}

TEST(Settings, AreTheSameAfterABroadcast) {
  const auto read = read_settings({from({{"tutti_plan", "off"}, {"tutti_app", "7"}}), {}, {}}, {});
  const Settings copy = Settings::decode(read.settings.encode());
  EXPECT_FALSE(copy.rearrange);
  EXPECT_EQ(copy.application, 7u);
}

TEST(Settings, ConfigurationFilesHaveTableMpi) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/mpi.toml";
  EXPECT_FALSE(*read_configuration(path));  // does not exist
  std::ofstream(path) << "[mpi]\nplan = \"resonant\"\nstripe_count = 8\n";
  const auto found = read_configuration(path);
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)("plan"), "resonant");
  EXPECT_EQ((*found)("stripe_count"), "8");
  std::ofstream(path) << "[mpi]\nplam = \"resonant\"\n";
  EXPECT_THAT(read_configuration(path).error().message, HasSubstr("plam"));
}

TEST(Settings, TheFileSystemKnowsTheLayoutBest) {
  Settings settings;
  EXPECT_EQ(choose_layout(std::nullopt, settings).stripe_count, 1u);
  settings.stripe_count = 4;
  EXPECT_EQ(choose_layout(std::nullopt, settings).targets.size(), 4u);
  EXPECT_EQ(choose_layout(Layout::round_robin(Bytes(65536), 2), settings).stripe_count, 2u);
}

// A disk that the kernel describes below `directory`, with a partition. Returns the folder of the links.
std::string describe_disk(const TemporaryDirectory& directory, const std::string& place, const std::string& model) {
  const std::filesystem::path disk = std::filesystem::path(directory.path()) / place;
  const auto links = std::filesystem::path(directory.path()) / "dev";
  std::filesystem::create_directories(disk / "queue");
  std::filesystem::create_directories(disk / "device");
  std::filesystem::create_directories(disk / "part1");
  std::filesystem::create_directories(links);
  std::ofstream(disk / "queue/rotational") << "1\n";
  std::ofstream(disk / "device/model") << model << "\n";
  std::ofstream(disk / "part1/partition") << "1\n";
  std::filesystem::create_directory_symlink(disk, links / "8:0");
  std::filesystem::create_directory_symlink(disk / "part1", links / "8:1");
  return links;
}

bool assumed_disk(const std::string& devices, unsigned minor) {
  Layout layout = Layout::round_robin(Bytes(65536), 1);
  layout.source = "default";
  return assume_device(layout, makedev(8, minor), devices).read_positioning > std::chrono::milliseconds(1);
}

TEST(Settings, DisksThatRotateAreDisks) {
  const TemporaryDirectory directory;
  const auto devices = describe_disk(directory, "pci0/ata1/block/sda", "ST4000NM0033");
  EXPECT_TRUE(assumed_disk(devices, 0));
  EXPECT_TRUE(assumed_disk(devices, 1));   // a partition
  EXPECT_FALSE(assumed_disk(devices, 2));  // not described
}

TEST(Settings, DisksOfVirtualMachinesAreNotAssumedToRotate) {
  for (const auto& [place, model] : std::map<std::string, std::string>{{"pci0/virtio1/block/vda", ""},
                                                                       {"pci0/host0/block/sda", "QEMU HARDDISK"},
                                                                       {"pci0/host1/block/sdb", "Virtual disk"}}) {
    const TemporaryDirectory directory;
    const auto devices = describe_disk(directory, place, model);
    EXPECT_FALSE(assumed_disk(devices, 0)) << place;
    EXPECT_FALSE(assumed_disk(devices, 1)) << place;
  }
}

TEST(Settings, RanksOfOneMachineExchangeThroughMemory) {
  collective::DeviceProfile between, within, set;
  assume_network(between, {}, false);
  assume_network(within, {}, true);
  Settings settings;
  settings.network = Bytes(1'000'000'000);
  assume_network(set, settings, true);
  EXPECT_EQ(between.network_bandwidth, collective::DeviceProfile{}.network_bandwidth);
  EXPECT_GT(within.network_bandwidth, 10 * between.network_bandwidth);
  EXPECT_LT(within.message, between.message);
  EXPECT_EQ(set.network_bandwidth, 1e9);
}

class MountFiles : public ::testing::Test {
 protected:
  std::vector<std::byte> bytes(std::size_t count, int first) {
    std::vector<std::byte> made(count);
    for (std::size_t i = 0; i < count; ++i) made[i] = static_cast<std::byte>(first + static_cast<int>(i));
    return made;
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_.path() + "/file";
};

TEST_F(MountFiles, WriteAndReadLists) {
  std::ofstream(path_).close();
  MountFile file({path_, true, true, 0});
  auto a = bytes(10, 0), b = bytes(5, 50), c = bytes(3, 90);
  ASSERT_TRUE(file.write(std::vector<FilePart>{{0, a.data(), 10}, {10, b.data(), 5}, {100, c.data(), 3}}, {}));
  std::vector<std::byte> back(200, std::byte{0xEE});
  // The last part begins inside of the file and ends after it; the one before is a hole.
  const auto end = file.read(
      std::vector<FilePart>{
          {12, back.data(), 3}, {50, back.data() + 10, 2}, {99, back.data() + 20, 10}, {200, back.data() + 40, 5}},
      {});
  ASSERT_TRUE(end);
  EXPECT_EQ(*end, 103u);
  EXPECT_EQ(back[0], std::byte{52});
  EXPECT_EQ(back[10], std::byte{0});
  EXPECT_EQ(back[23], std::byte{92});
  EXPECT_EQ(back[24], std::byte{0xEE});
  EXPECT_EQ(back[40], std::byte{0xEE});
  EXPECT_TRUE(file.sync());
  EXPECT_TRUE(file.close());
}

TEST_F(MountFiles, KnowTheirSizeAndWhetherDataIsCached) {
  std::ofstream(path_) << std::string(100000, 'x');
  MountFile file({path_, true, true, 0});
  EXPECT_EQ(*file.size(), 100000u);
  EXPECT_TRUE(file.cached({}));
  // Some file systems cannot tell. Those that can find in the page cache what was just written.
  std::byte byte{};
  const iovec buffer{&byte, 1};
  const Descriptor raw(::open(path_.c_str(), O_RDWR));
  const bool can_tell = ::preadv2(raw.get(), &buffer, 1, 0, RWF_NOWAIT) == 1;
  EXPECT_EQ(file.cached(std::vector<Extent>{{0, 10}, {99990, 10}}), can_tell);
  EXPECT_FALSE(MountFile({path_ + ".missing", true, true, 0}).cached(std::vector<Extent>{{0, 10}}));
}

TEST_F(MountFiles, ReadPartsBeforeTheEndAfterPartsBehindIt) {
  std::ofstream(path_) << "0123456789";
  MountFile file({path_, true, false, 0});
  std::vector<std::byte> back(20, std::byte{0xEE});
  EXPECT_EQ(*file.read(std::vector<FilePart>{{50, back.data(), 5}, {2, back.data() + 5, 3}}, {}), 10u);
  EXPECT_EQ(back[0], std::byte{0xEE});
  EXPECT_EQ(back[5], std::byte{'2'});
}

TEST_F(MountFiles, RefuseAnotherFileOfTheSameName) {
  std::ofstream(path_) << "data";
  MountFile file({path_, true, true, 1});
  EXPECT_EQ(file.open().error().code, ErrorCode::kNotFound);
  EXPECT_EQ(MountFile({path_ + ".missing", true, true, 0}).open().error().system, ENOENT);
}

}  // namespace
}  // namespace tutti::mpi
