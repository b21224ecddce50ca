# SPDX-License-Identifier: Apache-2.0
# weir_add_test_binary(<name> [INCLUDES …] [SOURCES …]): a GoogleTest program that is one ctest test.
# weir_add_child_program(<name> <source>): a program that tests start as a second process.
# weir_share_test(<test> <program> <parts> [<argument>…]): let so many processes share the cases of a test, so that no core
# waits for it. The program has these arguments there already.
# weir_compile_quickly(<target>): for code that nobody measures.
# weir_set_test_properties(<test> [seconds]): time limit and sanitizer environment.
# Every test program is in <build>/tests, its results in <build>/results/<name>.xml.
include_guard()

set(WEIR_TEST_BINARY_DIR "${PROJECT_BINARY_DIR}/tests")
set(WEIR_TEST_RESULT_DIR "${PROJECT_BINARY_DIR}/results")

function(weir_set_test_properties test)
  set(seconds 7200) # of a whole program beside 16 busy ones; a case that hangs is ended by the watchdog long before
  if(ARGC GREATER 1)
    set(seconds ${ARGV1})
  endif()
  set(case_seconds 300) # the watchdog's: the longest take 12 alone, and ten times that when a machine is busy
  if(WEIR_SANITIZE)
    math(EXPR seconds "${seconds} * 4")
    math(EXPR case_seconds "${case_seconds} * 4")
  endif()
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT WEIR_TEST_SECONDS=${case_seconds})
  weir_sanitizer_environment(environment)
  set_tests_properties(${test} PROPERTIES TIMEOUT ${seconds} SKIP_RETURN_CODE 77)
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT ${environment})
endfunction()

# At this level gcc warns about its own std::string operator+, as with -Wrestrict (WeirWarnings.cmake).
function(weir_compile_quickly target)
  target_compile_options(${target} PRIVATE
    $<$<CONFIG:Release>:-O1> $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-Wno-array-bounds>)
endfunction()

# What nearly every test includes, compiled once, as executables are. CMAKE_DISABLE_PRECOMPILE_HEADERS finds the tests
# that leave an include out because of it. ccache takes an old precompiled header for the new one: it preprocesses with it.
function(_weir_precompiled_headers target)
  if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache")
    return()
  endif()
  set(from weir_test_headers)
  if(target IN_LIST _weir_computing_tests)
    set(from weir_computing_test_headers)
  endif()
  if(NOT TARGET ${from})
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/${from}.cpp" CONTENT "int main() {}\n")
    add_executable(${from} EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/${from}.cpp")
    _weir_test_target(${from})
    target_precompile_headers(${from} PRIVATE <algorithm> <array> <atomic> <chrono> <cstdint> <cstring> <functional>
      <gtest/gtest.h> <map> <memory> <mutex> <optional> <random> <string> <thread> <utility> <vector>
      [["weir/weir.hpp"]])
  endif()
  target_precompile_headers(${target} REUSE_FROM ${from})
endfunction()

# Most tests spend their time in the library, and most of a build is the compiler's work on tests, so they are not
# optimized. Those that compute much by themselves are, a little.
set(_weir_computing_tests weir_unit_tests weir_random_tests random_child weir_computing_test_headers)

function(_weir_test_target name)
  weir_target_options(${name})
  if(name IN_LIST _weir_computing_tests)
    weir_compile_quickly(${name})
  else()
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O0>)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${WEIR_TEST_BINARY_DIR}")
  target_compile_definitions(${name} PRIVATE "WEIR_CHILD_DIR=\"${WEIR_TEST_BINARY_DIR}\"")
  target_include_directories(${name} SYSTEM PRIVATE "${DLPack_INCLUDE_DIR}")
  target_link_libraries(${name} PRIVATE weir_test_support)
endfunction()

function(weir_add_test_binary name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "INCLUDES;SOURCES")
  if(NOT arg_SOURCES)
    return() # nothing written yet
  endif()
  add_executable(${name} ${arg_SOURCES})
  _weir_test_target(${name})
  _weir_precompiled_headers(${name})
  target_include_directories(${name} PRIVATE ${arg_INCLUDES})
  add_test(NAME ${name} COMMAND ${name} "--gtest_output=xml:${WEIR_TEST_RESULT_DIR}/${name}.xml")
  weir_set_test_properties(${name})
endfunction()

function(weir_share_test test program parts)
  get_property(environment TEST ${test} PROPERTY ENVIRONMENT)
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT GTEST_TOTAL_SHARDS=${parts} GTEST_SHARD_INDEX=0)
  foreach(part RANGE 2 ${parts})
    set(name ${test}.${part}of${parts})
    math(EXPR index "${part} - 1")
    add_test(NAME ${name} COMMAND ${program} ${ARGN} "--gtest_output=xml:${WEIR_TEST_RESULT_DIR}/${name}.xml")
    weir_set_test_properties(${name})
    set_property(TEST ${name} PROPERTY ENVIRONMENT
      ${environment} GTEST_TOTAL_SHARDS=${parts} GTEST_SHARD_INDEX=${index})
  endforeach()
endfunction()

function(weir_add_child_program name source)
  add_executable(${name} "${source}")
  _weir_test_target(${name})
  _weir_precompiled_headers(${name})
endfunction()
