# SPDX-License-Identifier: Apache-2.0
# One function per kind of thing we build.

# tutti_precompile(NAME HEADERS <header>... OPTIONS option... LINKS library...)
# Headers that take most of a translation unit's time, compiled once for all targets that REUSE_FROM tutti_NAME. Only
# headers that never change: of the standard library and of dependencies. Sources still include what they use.
function(tutti_precompile name)
  cmake_parse_arguments(arg "" "KIND" "HEADERS;OPTIONS;LINKS" ${ARGN})
  set(source ${CMAKE_BINARY_DIR}/${name}.cc)
  if(arg_KIND STREQUAL "PROGRAM")  # code of programs and of libraries is compiled differently
    file(CONFIGURE OUTPUT ${source} CONTENT "int main() {}\n")
    add_executable(tutti_${name} ${source})
  else()
    file(CONFIGURE OUTPUT ${source} CONTENT "")
    add_library(tutti_${name} OBJECT ${source})
  endif()
  target_precompile_headers(tutti_${name} PRIVATE ${arg_HEADERS})
  target_compile_options(tutti_${name} PRIVATE ${arg_OPTIONS} -fpch-preprocess)
  target_link_libraries(tutti_${name} PRIVATE ${arg_LINKS})
endfunction()

tutti_precompile(headers KIND LIBRARY OPTIONS ${TUTTI_WARNINGS} LINKS fmt::fmt Threads::Threads
  HEADERS <algorithm> <chrono> <condition_variable> <functional> <map> <memory> <mutex> <optional> <span> <string>
          <string_view> <thread> <unordered_map> <variant> <vector> <fmt/format.h> <tl/expected.hpp>)

# Test code is not optimised: it is compiled far more often than it runs.
set(TUTTI_TEST_OPTIONS ${TUTTI_WARNINGS} -O0)
if(BUILD_TESTING)
  tutti_precompile(test_headers KIND PROGRAM OPTIONS ${TUTTI_TEST_OPTIONS} LINKS GTest::gmock fmt::fmt Threads::Threads
    HEADERS <gmock/gmock.h> <algorithm> <chrono> <condition_variable> <functional> <map> <memory> <mutex> <optional>
            <span> <string> <string_view> <thread> <unordered_map> <variant> <vector> <fmt/format.h> <tl/expected.hpp>)
endif()

# tutti_module(NAME [USES module...] [LINKS library...])
# A folder: every .cc but the tests and main.cc becomes library tutti_NAME, all *_test.cc one test program.
function(tutti_module name)
  cmake_parse_arguments(arg "" "" "USES;LINKS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cc)
  list(FILTER sources EXCLUDE REGEX "(_(test|bench|fuzz)|/main)\\.cc$")
  add_library(tutti_${name} STATIC ${sources})
  target_include_directories(tutti_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
  target_compile_options(tutti_${name} PRIVATE ${TUTTI_WARNINGS})
  target_precompile_headers(tutti_${name} REUSE_FROM tutti_headers)
  list(TRANSFORM arg_USES PREPEND tutti_)
  target_link_libraries(tutti_${name} PUBLIC ${arg_USES} ${arg_LINKS} fmt::fmt Threads::Threads)

  file(GLOB_RECURSE tests CONFIGURE_DEPENDS *_test.cc)
  if(tests AND BUILD_TESTING)
    tutti_test(${name} SOURCES ${tests} USES ${name})
  endif()
endfunction()

# What ./test --asan and --tsan build: the unit and conformance suites, and the end-to-end tests of clusters.
add_custom_target(suites)

# How many times as long things may take under a sanitizer. Limits of ctest grow by it, and so do those of tests that
# wait for other processes, which see it as TUTTI_PATIENCE (tests/e2e/processes.h).
set(TUTTI_PATIENCE 1)
if(TUTTI_SANITIZE)
  set(TUTTI_PATIENCE 5)
endif()

# tutti_test(NAME SOURCES file... USES module... [LABELS label...] [TIMEOUT seconds])
# One GoogleTest program, one ctest entry. Label `unit` unless told; `unit`, `conformance` and `cluster` also run under
# sanitizers.
function(tutti_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;USES;LABELS;LINKS" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * ${TUTTI_PATIENCE}")
  add_executable(${name}_test ${arg_SOURCES})
  target_compile_options(${name}_test PRIVATE ${TUTTI_TEST_OPTIONS})
  target_precompile_headers(${name}_test REUSE_FROM tutti_test_headers)
  list(TRANSFORM arg_USES PREPEND tutti_)
  target_link_libraries(${name}_test PRIVATE ${arg_USES} ${arg_LINKS} GTest::gmock GTest::gtest_main fmt::fmt)
  add_test(NAME ${name} COMMAND ${name}_test --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
  if(arg_LABELS MATCHES "unit|conformance|cluster")
    add_dependencies(suites ${name}_test)
  endif()
endfunction()

# tutti_program(NAME SOURCES file... USES module... [LINKS library...])
function(tutti_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;USES;LINKS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_compile_options(${name} PRIVATE ${TUTTI_WARNINGS})
  list(TRANSFORM arg_USES PREPEND tutti_)
  target_link_libraries(${name} PRIVATE ${arg_USES} ${arg_LINKS})
endfunction()

# tutti_shared_library(TARGET FILE_NAME MODULE module EXPORTS version_script)
# A module as libFILE_NAME.so for other people's programs. The version script names the symbols that may be seen.
function(tutti_shared_library target file_name)
  cmake_parse_arguments(arg "" "MODULE;EXPORTS" "" ${ARGN})
  add_library(${target} SHARED $<TARGET_OBJECTS:tutti_${arg_MODULE}>)
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(${target} PRIVATE tutti_${arg_MODULE})
  target_link_options(${target} PRIVATE -Wl,--version-script=${arg_EXPORTS})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${file_name} LINKER_LANGUAGE CXX LINK_DEPENDS ${arg_EXPORTS})
  install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

# tutti_fuzz(NAME SOURCES file... [LINKS library...])
# bin/NAME_fuzz and a test that runs it for a few seconds: NAME_fuzz.cc and what it needs, built by clang with libFuzzer,
# AddressSanitizer and UBSan, whatever builds the rest (g++ has no libFuzzer). For longer: bin/NAME_fuzz CORPUS_DIRECTORY
find_program(TUTTI_FUZZ_COMPILER NAMES clang++-14 clang++)
function(tutti_fuzz name)
  if(NOT BUILD_TESTING OR NOT TUTTI_FUZZ_COMPILER OR TUTTI_SANITIZE)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  set(program ${CMAKE_BINARY_DIR}/bin/${name}_fuzz)
  list(TRANSFORM arg_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(TRANSFORM arg_LINKS PREPEND -l)
  set(objects)
  foreach(source ${arg_SOURCES})
    get_filename_component(base ${source} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}_fuzz_${base}.o)
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${TUTTI_FUZZ_COMPILER} -std=c++20 -O1 -g -fno-sanitize-recover=all
              -fsanitize=fuzzer-no-link,address,undefined -I${CMAKE_SOURCE_DIR}/src -I${CMAKE_SOURCE_DIR}/include
              -MD -MF ${object}.d -c ${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  add_custom_command(
    OUTPUT ${program}
    COMMAND ${TUTTI_FUZZ_COMPILER} -fsanitize=fuzzer,address,undefined ${objects} ${arg_LINKS} -o ${program}
    DEPENDS ${objects} VERBATIM)
  add_custom_target(${name}_fuzz ALL DEPENDS ${program})
  add_test(NAME ${name}_fuzz COMMAND ${program} -max_total_time=6 -max_len=4096 -print_final_stats=1)
  set_tests_properties(${name}_fuzz PROPERTIES LABELS fuzz TIMEOUT 120)
endfunction()
