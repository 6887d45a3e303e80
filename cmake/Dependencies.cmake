# SPDX-License-Identifier: Apache-2.0
# The libraries of cmake/dependencies.txt as targets. Header-only ones are found by the compiler itself.
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
if(BUILD_TESTING)
  find_package(GTest REQUIRED)
endif()
find_package(PkgConfig REQUIRED)
