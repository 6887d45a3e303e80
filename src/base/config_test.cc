// SPDX-License-Identifier: Apache-2.0
#include "base/config.h"

#include <gmock/gmock.h>

namespace tutti {
namespace {

using namespace literals;
using testing::AllOf;
using testing::HasSubstr;

std::string first_mistake(const char* text, void (*read)(Section)) {
  auto config = Config::parse(text, "site.toml");
  if (!config) return config.error().message;
  read(config->root());
  auto done = config->finish();
  return done ? "" : done.error().message;
}

TEST(Config, ReadsEveryKindOfValue) {
  auto config = Config::parse(R"(
    name = "scratch"
    depth = 16
    share = 0.5
    direct = true
    width = "250ms"
    stripe = "64KiB"
    plain = 512
    paths = ["/a", "/b"]
    [inner]
    depth = 3
    [[job]]
    size = "1MiB"
    [[job]]
    size = "2MiB"
  )",
                              "site.toml");
  ASSERT_TRUE(config) << config.error().message;
  Section root = config->root();
  EXPECT_EQ(root.text("name", ""), "scratch");
  EXPECT_EQ(root.integer("depth", 1), 16);
  EXPECT_EQ(root.number("share", 0), 0.5);
  EXPECT_TRUE(root.boolean("direct", false));
  EXPECT_EQ(root.duration("width", Duration{}), std::chrono::milliseconds(250));
  EXPECT_EQ(root.bytes("stripe", 0_B), 64_KiB);
  EXPECT_EQ(root.bytes("plain", 0_B), 512_B);
  EXPECT_THAT(root.texts("paths"), testing::ElementsAre("/a", "/b"));
  EXPECT_EQ(root.section("inner").integer("depth", 0), 3);
  auto jobs = root.sections("job");
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].bytes("size", 0_B), 1_MiB);
  EXPECT_EQ(jobs[1].bytes("size", 0_B), 2_MiB);
  EXPECT_EQ(root.integer("absent", 7), 7);
  EXPECT_TRUE(config->finish());
}

TEST(Config, AnUnknownKeyIsReportedWithFileLineAndTheAcceptedOnes) {
  EXPECT_THAT(first_mistake("depth = 1\n\n[node]\nwitdh = 3\n",
                            [](Section root) {
                              root.integer("depth", 0);
                              root.section("node").integer("width", 0);
                            }),
              AllOf(HasSubstr("site.toml:4"), HasSubstr("node.witdh"), HasSubstr("accepted here: width")));
}

TEST(Config, AWrongValueIsReportedWithWhatWouldBeRight) {
  EXPECT_THAT(first_mistake("depth = 0",
                            [](Section s) {
                              s.integer("depth", 1, {1, 64});
                            }),
              AllOf(HasSubstr("site.toml:1: depth"), HasSubstr("1 to 64")));
  EXPECT_THAT(first_mistake("policy = 'fast'",
                            [](Section s) {
                              s.choice("policy", "fifo", {"fifo", "window"});
                            }),
              AllOf(HasSubstr("'fast'"), HasSubstr("fifo, window")));
  EXPECT_THAT(first_mistake("width = 250", [](Section s) { s.duration("width", Duration{}); }), HasSubstr("250ms"));
  EXPECT_THAT(first_mistake("width = '250 lightyears'", [](Section s) { s.duration("width", Duration{}); }),
              HasSubstr("not a duration"));
  EXPECT_THAT(first_mistake("size = -1", [](Section s) { s.bytes("size", 0_B); }), HasSubstr("negative"));
  EXPECT_THAT(first_mistake("= 3", [](Section) {}), HasSubstr("site.toml:1: not valid TOML"));
}

TEST(Config, TheFirstMistakeIsTheOneReported) {
  EXPECT_THAT(first_mistake("a = 'x'\nb = 'y'",
                            [](Section s) {
                              s.integer("a", 0);
                              s.integer("b", 0);
                            }),
              HasSubstr("site.toml:1: a"));
}

TEST(Config, SetReplacesOneValue) {
  auto config = Config::parse("[[job]]\nsize = '1MiB'\n", "s.toml");
  ASSERT_TRUE(config);
  EXPECT_TRUE(config->set("job.0.size=3MiB"));
  EXPECT_TRUE(config->set("device.seek='1ms'"));
  EXPECT_TRUE(config->set("servers=8"));
  EXPECT_FALSE(config->set("job.5.size=3MiB"));
  EXPECT_FALSE(config->set("nonsense"));
  EXPECT_EQ(config->root().sections("job")[0].bytes("size", 0_B), 3_MiB);
  EXPECT_EQ(config->root().integer("servers", 0), 8);
  EXPECT_EQ(config->section("device").duration("seek", Duration{}), std::chrono::milliseconds(1));
}

TEST(Config, AMissingFileIsAnError) {
  auto config = Config::load("/nonexistent/tutti.toml");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("/nonexistent/tutti.toml"));
}

}  // namespace
}  // namespace tutti
