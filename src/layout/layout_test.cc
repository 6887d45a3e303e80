// SPDX-License-Identifier: Apache-2.0
#include "layout/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/prng.h"
#include "base/testing.h"
#include "layout/discovery.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Reference implementation: distributes a file byte by byte.
struct Model {
  struct Place {
    std::uint64_t object, object_offset;
  };
  std::vector<Place> bytes;

  Model(const Layout& layout, std::uint64_t size) {
    std::vector<std::uint64_t> filled;  // per object
    std::uint64_t set = 0, column = 0, in_stripe = 0;
    for (std::uint64_t i = 0; i < size; ++i) {
      const auto object = set * layout.stripe_count + column;
      if (object >= filled.size()) filled.resize(object + 1);
      bytes.push_back({object, filled[object]++});
      if (++in_stripe < layout.stripe_size.count()) continue;
      in_stripe = 0;
      if (++column < layout.stripe_count) continue;
      column = 0;
      if (layout.object_size.count() > 0 && filled[set * layout.stripe_count] == layout.object_size.count()) ++set;
    }
  }
};

Layout random_layout(Prng& random) {
  Layout layout;
  layout.stripe_size = Bytes(1 + random.below(9));
  layout.stripe_count = static_cast<std::uint32_t>(1 + random.below(5));
  if (random.chance(0.5)) layout.object_size = layout.stripe_size * (1 + random.below(4));
  layout.targets.clear();
  for (auto count = 1 + random.below(7); count > 0; --count)
    layout.targets.push_back(static_cast<TargetId>(random.below(100)));
  return layout;
}

void compare_with_model(Prng random) {
  for (int round = 0; round < 300; ++round) {
    const auto layout = random_layout(random);
    ASSERT_TRUE(layout.check());
    const Model model(layout, 400);
    const auto offset = random.below(300), length = random.below(100);
    auto at = offset;
    for (const auto& piece : split(layout, offset, Bytes(length))) {
      ASSERT_EQ(piece.offset, at) << "a gap or an overlap";
      ASSERT_GT(piece.length.count(), 0u);
      for (std::uint64_t i = 0; i < piece.length.count(); ++i, ++at) {
        ASSERT_EQ(model.bytes[at].object, piece.object);
        ASSERT_EQ(model.bytes[at].object_offset, piece.object_offset + i);
        ASSERT_EQ(layout.targets[piece.object % layout.targets.size()], piece.target);
        ASSERT_EQ(file_offset(layout, piece.object, piece.object_offset + i), at);
        ASSERT_EQ(locate(layout, at).target, piece.target);
      }
    }
    ASSERT_EQ(at, offset + length);
  }
}

TEST(Layout, AgreesWithDealingOutByteByByte) {
  for (const std::uint64_t seed : testing_support::seeds({11})) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    compare_with_model(Prng(seed));
  }
}

TEST(Layout, GoesUpToTheLastByte) {
  const auto layout = Layout::round_robin(Bytes(1 << 20), 4, 2);
  EXPECT_THAT(layout.targets, ElementsAre(2, 3, 0, 1));
  const auto end = std::uint64_t{1} << 63;
  const auto pieces = split(layout, end - (3 << 19), Bytes(3 << 19));
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces.back().offset + pieces.back().length.count(), end);
}

TEST(Layout, OneColumnIsOnePiece) {
  EXPECT_EQ(split(Layout::round_robin(Bytes(10), 1), 5, Bytes(1000)).size(), 1u);
}

TEST(Layout, NonsenseIsRefused) {
  EXPECT_FALSE((Layout{.stripe_size = Bytes(0)}).check());
  EXPECT_FALSE((Layout{.stripe_count = 0}).check());
  EXPECT_FALSE((Layout{.stripe_size = Bytes(10), .object_size = Bytes(15)}).check());
  EXPECT_FALSE((Layout{.targets = {}}).check());
}

// As the Lustre client returns it.
std::string lov(std::uint32_t magic, std::uint32_t stripe_size, const std::vector<std::uint32_t>& targets) {
  auto put = [](std::string& bytes, auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  std::string bytes;
  put(bytes, magic);
  put(bytes, std::uint32_t{1});
  put(bytes, std::uint64_t{77});
  put(bytes, std::uint64_t{2});
  put(bytes, stripe_size);
  put(bytes, static_cast<std::uint16_t>(targets.size()));
  put(bytes, std::uint16_t{0});
  if (magic == 0x0BD30BD0) bytes.append(16, 'p');
  for (const auto target : targets) {
    put(bytes, std::uint64_t{1});
    put(bytes, std::uint64_t{2});
    put(bytes, std::uint32_t{0});
    put(bytes, target);
  }
  return bytes;
}

TEST(Discovery, ReadsLustre) {
  for (const auto magic : {0x0BD10BD0U, 0x0BD30BD0U}) {
    const auto bytes = lov(magic, 4 << 20, {7, 3, 5});
    auto layout = parse_lustre(bytes);
    ASSERT_TRUE(layout) << layout.error().message;
    EXPECT_EQ(layout->stripe_size.count(), 4u << 20);
    EXPECT_THAT(layout->targets, ElementsAre(7, 3, 5));
    for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(parse_lustre({bytes.data(), size})) << size;
  }
  EXPECT_THAT(parse_lustre(lov(0x0BD60BD0, 1, {})).error().message, HasSubstr("composite"));
  EXPECT_FALSE(parse_lustre(lov(0x0BD10BD0, 0, {1})));
  EXPECT_FALSE(parse_lustre("hello, world"));
}

TEST(Discovery, ReadsCeph) {
  auto layout = parse_ceph("stripe_unit=65536 stripe_count=3 object_size=4194304 pool=cephfs.data", 4);
  ASSERT_TRUE(layout) << layout.error().message;
  EXPECT_EQ(layout->stripe_count, 3u);
  EXPECT_EQ(locate(*layout, 3 * 4194304).object, 3u);
  EXPECT_EQ(locate(*layout, 3 * 4194304).target, 3u);
  for (const std::string bad :
       {"", "stripe_unit=x stripe_count=1 object_size=1", "stripe_unit=3 stripe_count=1 object_size=4",
        "stripe_unit=0 stripe_count=1 object_size=4"}) {
    EXPECT_FALSE(parse_ceph(bad, 4)) << bad;
  }
}

TEST(Discovery, ReadsGluster) {
  const std::string one = "(<DISTRIBUTE:v-dht> <POSIX(/bricks/b1):host1:/bricks/b1/file>)";
  auto layout = parse_gluster(one, 8);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->targets.size(), 1u);
  EXPECT_EQ(parse_gluster(one, 8)->targets, parse_gluster("(<X> <POSIX(/bricks/b1):host1:/other>)", 8)->targets);
  EXPECT_FALSE(parse_gluster("(<DISTRIBUTE:v-dht>)", 8));
  EXPECT_FALSE(parse_gluster("<POSIX(/b", 8));
}

TEST(Discovery, ALocalDirectorySaysNothing) {
  const auto path = testing::TempDir() + "tutti-layout";
  std::ofstream(path) << "x";
  auto found = discover_file(path, 4);
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->has_value());
  std::remove(path.c_str());
  EXPECT_EQ(discover_file(path, 4).error().code, ErrorCode::kNotFound);
}

TEST(Discovery, TheFirstFileSystemThatSpeaksIsBelieved) {
  auto ceph = discover(
      [](const std::string& name) {
        return name == "ceph.file.layout" ? std::optional<std::string>("stripe_unit=8 stripe_count=1 object_size=8")
                                          : std::nullopt;
      },
      2);
  ASSERT_TRUE(ceph && *ceph);
  EXPECT_EQ((*ceph)->source, "cephfs");
  EXPECT_FALSE(discover([](const std::string&) { return std::optional<std::string>("rubbish"); }, 2));
}

}  // namespace
}  // namespace tutti
