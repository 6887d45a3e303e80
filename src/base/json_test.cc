// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <gtest/gtest.h>

#include <limits>

namespace tutti {
namespace {

TEST(Json, DocumentsAreWrittenInTheOrderOfTheirMembers) {
  Json list = Json::array();
  list.push_back({{"name", "node0"}, {"up", true}, {"targets", std::vector<std::uint32_t>{3, 1}}, {"error", nullptr}});
  list.push_back({{"ratio", 1.0}, {"less", -2}, {"most", std::numeric_limits<std::uint64_t>::max()}});
  EXPECT_EQ(list.dump(), R"([{"name":"node0","up":true,"targets":[3,1],"error":null},)"
                         R"({"ratio":1.0,"less":-2,"most":18446744073709551615}])");
  EXPECT_EQ(Json({{"a", 1}}).dump(2), "{\n  \"a\": 1\n}");
}

TEST(Json, BracesMakeObjectsOfPairsAndArraysOfTheRest) {
  EXPECT_EQ(Json({{"a", 1}, {"b", {{"c", 2}}}}).dump(), R"({"a":1,"b":{"c":2}})");
  EXPECT_EQ(Json({1, "a", nullptr}).dump(), R"([1,"a",null])");
  EXPECT_EQ(Json::array({"a", "b"}).dump(), R"(["a","b"])");
  EXPECT_EQ(Json::array().dump(), "[]");
  EXPECT_EQ(Json::object().dump(), "{}");
  EXPECT_EQ(Json(std::map<std::string, std::string>{{"width", "1s"}}).dump(), R"({"width":"1s"})");
}

TEST(Json, MembersAreAddedAndReplaced) {
  Json json;
  json["b"] = 1;
  json["a"]["c"] = "deep";
  json["b"] = 2;
  json.update({{"d", 3}, {"a", nullptr}});
  EXPECT_EQ(json.dump(), R"({"b":2,"a":null,"d":3})");
}

TEST(Json, WhatIsNoTextIsReplacedAndWhatIsNotFiniteIsNull) {
  EXPECT_EQ(Json("a\"\n\xff").dump(), "\"a\\\"\\n\xEF\xBF\xBD\"");
  EXPECT_EQ(Json("\xC3\xA9").dump_ascii(), "\"\\u00e9\"");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
}

TEST(Json, ReadsWhatItWrote) {
  const Json json = {{"flag", true},   {"less", -2},     {"real", 0.1},
                     {"text", "word"}, {"list", {1, 2}}, {"none", nullptr}};
  const auto read = parse_json(json.dump(2));
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, json);
  EXPECT_TRUE((*read)["flag"].boolean());
  EXPECT_EQ((*read)["less"].number(), -2);
  EXPECT_EQ((*read)["list"].size(), 2u);
  EXPECT_EQ((*read)["list"][1].count(), 2u);
  EXPECT_EQ((*read)["list"][1], 2.0);
  EXPECT_NE((*read)["list"][1], "2");
  EXPECT_FALSE(parse_json("{\"a\": "));
  EXPECT_FALSE(parse_json(""));
}

TEST(Json, WhatIsNotThereReadsAsNothing) {
  const Json json = {{"text", "word"}};
  EXPECT_TRUE(json["other"].is_null());
  EXPECT_TRUE(json["text"][3]["deeper"].is_null());
  EXPECT_EQ(json["text"].count(), 0u);
  EXPECT_EQ(json["text"].number(), 0);
  EXPECT_FALSE(json["text"].boolean());
  EXPECT_EQ(json["other"].text(), "");
  EXPECT_TRUE(json["other"].empty());
}

}  // namespace
}  // namespace tutti
