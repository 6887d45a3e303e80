// SPDX-License-Identifier: Apache-2.0
// The shared libraries export their documented functions and nothing of what is inside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <set>
#include <string>

namespace {

using ::testing::ElementsAre;

// The names nm lists as defined for others, demangled.
std::set<std::string> exports(const std::string& library) {
  std::set<std::string> names;
  FILE* listing = popen(("nm --dynamic --defined-only --demangle --format=posix " + library).c_str(), "r");
  EXPECT_NE(listing, nullptr);
  std::array<char, 4096> line{};
  while (fgets(line.data(), line.size(), listing)) {
    // "name with spaces T address size"
    const std::string text(line.data());
    for (const char* kind : {" T ", " V ", " W ", " D ", " B ", " R ", " u "}) {
      if (const auto end = text.rfind(kind); end != std::string::npos) names.insert(text.substr(0, end));
    }
  }
  EXPECT_EQ(pclose(listing), 0);
  return names;
}

TEST(Exports, OfLibtuttiAreTheCApiAndTheSchedulersCppApi) {
  std::set<std::string> names = exports(LIBTUTTI);
  names.erase("vtable for tutti::Scheduler");  // emitted only if the compiler finds a use for it
  EXPECT_THAT(names, ElementsAre("tutti::Scheduler::create(tutti::Scheduler::Options)", "tutti_add", "tutti_cancel",
                                 "tutti_complete", "tutti_create", "tutti_create_with_callbacks", "tutti_destroy",
                                 "tutti_free", "tutti_get_statistics", "tutti_get_statistics_json", "tutti_last_error",
                                 "tutti_name_file", "tutti_next", "tutti_stop", "tutti_switch_policy", "tutti_version",
                                 "typeinfo for tutti::Scheduler", "typeinfo name for tutti::Scheduler"));
}

TEST(Exports, OfLibtuttiClientAreTheClientsApis) {
  std::set<std::string> others;
  for (const std::string& name : exports(LIBTUTTI_CLIENT)) {
    const bool c_api = name.starts_with("tutti_client_") || name.starts_with("tutti_file_");
    const bool cpp_api =
        name.find("tutti::Client") != std::string::npos || name.find("tutti::File") != std::string::npos;
    if (!c_api && !cpp_api) others.insert(name.substr(0, name.find('(')));
  }
  EXPECT_THAT(others, ElementsAre("tutti::check_cluster", "tutti::default_cluster_file[abi:cxx11]",
                                  "tutti::load_cluster", "tutti::save_cluster"));
}

TEST(Exports, OfLibagiosAreItsFiveCalls) {
  EXPECT_THAT(exports(LIBAGIOS), ElementsAre("agios_add_request", "agios_cancel_request", "agios_exit", "agios_init",
                                             "agios_release_request"));
}

}  // namespace
