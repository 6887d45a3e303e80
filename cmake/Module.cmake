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

set(TUTTI_HEADERS <algorithm> <chrono> <condition_variable> <functional> <map> <memory> <mutex> <optional> <span> <string>
    <string_view> <thread> <unordered_map> <variant> <vector> <fmt/format.h> <tl/expected.hpp>)
tutti_precompile(headers KIND LIBRARY OPTIONS ${TUTTI_WARNINGS} LINKS fmt::fmt Threads::Threads HEADERS ${TUTTI_HEADERS})

# Test code is not optimised: it is compiled far more often than it runs.
set(TUTTI_TEST_OPTIONS ${TUTTI_WARNINGS} -O0)
if(BUILD_TESTING)
  tutti_precompile(test_headers KIND PROGRAM OPTIONS ${TUTTI_TEST_OPTIONS} LINKS GTest::gmock fmt::fmt Threads::Threads
    HEADERS <gmock/gmock.h> ${TUTTI_HEADERS})
endif()

# Several sources of a module or of a test program are compiled together, so that headers and templates are compiled less
# often. Switched off by preset dev, where one changed file should be compiled alone.
set(TUTTI_JOINED_SOURCES 6 CACHE STRING "sources of a module or test program that are compiled together; 1: each alone")

function(tutti_join_sources target)
  if(TUTTI_JOINED_SOURCES GREATER 1)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${TUTTI_JOINED_SOURCES})
    # gcc takes a joined source for a header, and warns of types in unnamed namespaces that other sources could see.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# tutti_module(NAME [SEPARATE] [USES module...] [LINKS library...])
# A folder: every .cc but the tests and main.cc becomes library tutti_NAME, all *_test.cc one test program. SEPARATE:
# sources are not joined, because they use one name for different things.
function(tutti_module name)
  cmake_parse_arguments(arg "SEPARATE" "" "USES;LINKS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cc)
  list(FILTER sources EXCLUDE REGEX "(_(test|bench|fuzz)|/main)\\.cc$")
  add_library(tutti_${name} STATIC ${sources})
  target_include_directories(tutti_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
  target_compile_options(tutti_${name} PRIVATE ${TUTTI_WARNINGS})
  target_precompile_headers(tutti_${name} REUSE_FROM tutti_headers)
  if(NOT arg_SEPARATE)
    tutti_join_sources(tutti_${name})
  endif()
  list(TRANSFORM arg_USES PREPEND tutti_)
  target_link_libraries(tutti_${name} PUBLIC ${arg_USES} ${arg_LINKS} fmt::fmt Threads::Threads)

  file(GLOB_RECURSE tests CONFIGURE_DEPENDS *_test.cc)
  if(tests AND BUILD_TESTING)
    tutti_test(${name} SOURCES ${tests} USES ${name})
  endif()
endfunction()

# tutti_embed(TARGET HEADER header NAMESPACE name CONSTANT=file...)
# Adds to the target a source file with the text of each file as a std::string_view, which the header declares.
function(tutti_embed target)
  cmake_parse_arguments(arg "" "HEADER;NAMESPACE" "" ${ARGN})
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${target}_embedded.cc)
  list(TRANSFORM arg_UNPARSED_ARGUMENTS REPLACE "=" "=${CMAKE_CURRENT_SOURCE_DIR}/" OUTPUT_VARIABLE entries)
  list(TRANSFORM entries REPLACE "^.*=" "" OUTPUT_VARIABLE files)
  list(JOIN entries "," entries)
  add_custom_command(OUTPUT ${source} DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/Embed.cmake VERBATIM
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${source} -DHEADER=${arg_HEADER} -DNAMESPACE=${arg_NAMESPACE}
            "-DENTRIES=${entries}" -P ${CMAKE_SOURCE_DIR}/cmake/Embed.cmake)
  target_sources(${target} PRIVATE ${source})
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
  tutti_join_sources(${name}_test)
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
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
  target_link_libraries(${target} PRIVATE tutti_${arg_MODULE})
  target_link_options(${target} PRIVATE -Wl,--version-script=${arg_EXPORTS})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${file_name} LINKER_LANGUAGE CXX LINK_DEPENDS ${arg_EXPORTS}
                                             VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
endfunction()

# tutti_fuzz(NAME SOURCES file... [MODULES module...] [USES module...] [LINKS library...])
# bin/NAME_fuzz and a test that runs it for a few seconds: the sources and all sources of MODULES, built by clang with
# libFuzzer, AddressSanitizer and UBSan, whatever builds the rest (g++ has no libFuzzer). Objects of a module serve all
# fuzzers. Modules in USES are linked as they are, because instrumented objects take long to compile.
# It starts from NAME_corpus in the source folder, if there is one; what it finds goes to the build folder. For longer, all
# of them, TUTTI_FUZZ_SECONDS each: cmake --build --preset release --target fuzz
set(TUTTI_FUZZ_SECONDS 3600 CACHE STRING "time of each program that target fuzz runs")
find_program(TUTTI_FUZZ_COMPILER NAMES clang++-14 clang++)
set(TUTTI_FUZZ_HEADERS ${CMAKE_BINARY_DIR}/fuzz/headers.h)
# Compiling fuzzers takes a large part of a build. Without the checks that find least here and without inlining of large
# functions it takes half the time.
set(TUTTI_FUZZ_OPTIONS -std=c++20 -O1 -g1 -fno-sanitize-recover=all -fsanitize=fuzzer-no-link,address,undefined
    -fno-sanitize=null,alignment,vptr,object-size -fno-sanitize-address-use-after-scope -mllvm -inline-threshold=0)

# The headers of TUTTI_HEADERS, compiled once for all fuzzers.
function(tutti_fuzz_headers header)
  list(TRANSFORM TUTTI_HEADERS PREPEND "#include " OUTPUT_VARIABLE lines)
  list(JOIN lines "\n" text)
  file(CONFIGURE OUTPUT ${header} CONTENT "${text}\n")
  add_custom_command(OUTPUT ${header}.pch DEPENDS ${header} DEPFILE ${header}.d VERBATIM
    COMMAND ${TUTTI_FUZZ_COMPILER} ${TUTTI_FUZZ_OPTIONS} -fpch-validate-input-files-content -x c++-header -MD -MF ${header}.d ${header} -o ${header}.pch)
  add_custom_target(fuzz_headers DEPENDS ${header}.pch)
endfunction()

# Sets `result` to the objects of the sources, which are made at most once for each name. Several sources are one object:
# most of the time goes into headers.
function(tutti_fuzz_objects result name)
  get_property(objects GLOBAL PROPERTY TUTTI_FUZZ_OBJECTS_${name})
  if(objects)
    set(${result} ${objects} PARENT_SCOPE)
    return()
  endif()
  set(sources ${ARGN})
  while(sources)
    list(LENGTH objects number)
    list(SUBLIST sources 0 8 joined)
    list(REMOVE_ITEM sources ${joined})
    set(object ${CMAKE_BINARY_DIR}/fuzz/${name}_${number}.o)
    list(TRANSFORM joined REPLACE "(.+)" "#include \"\\1\"" OUTPUT_VARIABLE lines)
    list(JOIN lines "\n" text)
    file(CONFIGURE OUTPUT ${object}.cc CONTENT "${text}\n")
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${TUTTI_FUZZ_COMPILER} ${TUTTI_FUZZ_OPTIONS} -fpch-validate-input-files-content -include-pch ${TUTTI_FUZZ_HEADERS}.pch -I${CMAKE_SOURCE_DIR}/src
              -I${CMAKE_SOURCE_DIR}/include -DTOML_HEADER_ONLY=0 -DTOML_SHARED_LIB=1
              -MD -MF ${object}.d -c ${object}.cc -o ${object}
      DEPENDS ${object}.cc ${TUTTI_FUZZ_HEADERS}.pch fuzz_headers DEPFILE ${object}.d VERBATIM)
    list(APPEND objects ${object})
  endwhile()
  add_custom_target(fuzz_objects_${name} DEPENDS ${objects})
  set_property(GLOBAL PROPERTY TUTTI_FUZZ_OBJECTS_${name} ${objects})
  set(${result} ${objects} PARENT_SCOPE)
endfunction()

function(tutti_fuzz name)
  if(NOT BUILD_TESTING OR NOT TUTTI_FUZZ_COMPILER OR TUTTI_SANITIZE)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;MODULES;USES;LINKS" ${ARGN})
  set(program ${CMAKE_BINARY_DIR}/bin/${name}_fuzz)
  list(TRANSFORM arg_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(TRANSFORM arg_LINKS PREPEND -l)
  list(TRANSFORM arg_USES REPLACE "(.+)" "$<TARGET_FILE:tutti_\\1>" OUTPUT_VARIABLE libraries)
  if(NOT TARGET fuzz_headers)
    tutti_fuzz_headers(${TUTTI_FUZZ_HEADERS})
  endif()
  tutti_fuzz_objects(objects ${name} ${arg_SOURCES})
  foreach(module ${arg_MODULES})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${module}/*.cc)
    list(FILTER sources EXCLUDE REGEX "(_(test|bench|fuzz)|/main)\\.cc$")
    tutti_fuzz_objects(of_module module_${module} ${sources})
    list(APPEND objects ${of_module})
  endforeach()
  add_custom_command(
    OUTPUT ${program}
    COMMAND ${TUTTI_FUZZ_COMPILER} -fsanitize=fuzzer,address,undefined ${objects} ${libraries} ${arg_LINKS} -o ${program}
    DEPENDS ${objects} ${libraries} VERBATIM)
  add_custom_target(${name}_fuzz ALL DEPENDS ${program})
  foreach(module ${arg_MODULES})
    add_dependencies(${name}_fuzz fuzz_objects_module_${module})
  endforeach()
  set(corpora ${CMAKE_CURRENT_BINARY_DIR}/${name}_corpus)  # libFuzzer adds to the first one
  file(MAKE_DIRECTORY ${corpora})
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${name}_corpus)
    list(APPEND corpora ${CMAKE_CURRENT_SOURCE_DIR}/${name}_corpus)
  endif()
  add_test(NAME ${name}_fuzz COMMAND ${program} -max_total_time=12 -max_len=4096 -print_final_stats=1 ${corpora})
  if(NOT TARGET fuzz)
    add_custom_target(fuzz)
  endif()
  add_custom_target(${name}_fuzz_long
    COMMAND ${program} -max_total_time=${TUTTI_FUZZ_SECONDS} -max_len=4096 -print_final_stats=1 ${corpora}
    DEPENDS ${program} USES_TERMINAL VERBATIM)
  add_dependencies(fuzz ${name}_fuzz_long)
  set_tests_properties(${name}_fuzz PROPERTIES LABELS fuzz TIMEOUT 120)
endfunction()
