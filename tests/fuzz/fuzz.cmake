# SPDX-License-Identifier: Apache-2.0
# A fuzz target is one *_fuzz.cpp here, with its seeds in corpus/<name>/ and perhaps words in <name>.dict.
# weir_fuzz_tests replays the corpora with any compiler; with WEIR_FUZZ (clang) each target also becomes a libFuzzer
# program, fuzz_<name>, and the library is instrumented for it.
set(folder "${CMAKE_CURRENT_LIST_DIR}")
file(GLOB targets CONFIGURE_DEPENDS "${folder}/*_fuzz.cpp")
if(NOT TARGET weir_tools)
  list(FILTER targets EXCLUDE REGEX "/(trace|spec)_fuzz\\.cpp$") # they read what the command line reads
  message(STATUS "weir: the fuzz targets trace and spec are left out, because WEIR_BUILD_TOOLS is off")
endif()
set(shared "${folder}/target.cpp" "${folder}/stranger_files.cpp")
file(GLOB_RECURSE seeds CONFIGURE_DEPENDS "${folder}/corpus/*") # a new seed is a new test

add_library(weir_fuzz_targets OBJECT ${targets} ${shared})
weir_target_options(weir_fuzz_targets)
weir_compile_quickly(weir_fuzz_targets)
weir_precompile(weir_fuzz_targets)
target_include_directories(weir_fuzz_targets PRIVATE "${PROJECT_SOURCE_DIR}/src" "${folder}/..") # unit/pool/
target_include_directories(weir_fuzz_targets SYSTEM PRIVATE "${DLPack_INCLUDE_DIR}")
target_link_libraries(weir_fuzz_targets PRIVATE weir_test_support $<TARGET_NAME_IF_EXISTS:weir_tools>)

weir_add_test_binary(weir_fuzz_tests INCLUDES "${folder}"
  SOURCES "${folder}/replay_test.cpp" $<TARGET_OBJECTS:weir_fuzz_targets>)
target_link_libraries(weir_fuzz_tests PRIVATE $<TARGET_NAME_IF_EXISTS:weir_tools>)
target_compile_definitions(weir_fuzz_tests PRIVATE "WEIR_FUZZ_CORPUS=\"${folder}/corpus\"")

if(WEIR_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "WEIR_FUZZ needs clang, which has libFuzzer: set CXX=clang++")
  endif()
  foreach(part IN LISTS backends)
    target_compile_options(weir_backend_${part} PRIVATE -fsanitize=fuzzer-no-link)
  endforeach()
  target_compile_options(weir PRIVATE -fsanitize=fuzzer-no-link)
  if(TARGET weir_tools)
    target_compile_options(weir_tools PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  target_compile_options(weir_fuzz_targets PRIVATE -fsanitize=fuzzer-no-link)
  add_custom_target(weir_fuzzers)
  foreach(source IN LISTS targets)
    get_filename_component(name "${source}" NAME_WE)
    string(REGEX REPLACE "_fuzz$" "" name "${name}")
    add_executable(fuzz_${name} "${source}" ${shared} "${folder}/entry.cpp")
    _weir_test_target(fuzz_${name})
    target_include_directories(fuzz_${name} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${folder}/..")
    target_link_libraries(fuzz_${name} PRIVATE $<TARGET_NAME_IF_EXISTS:weir_tools>)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer-no-link)
    add_dependencies(weir_fuzzers fuzz_${name})
  endforeach()
endif()
