# SPDX-License-Identifier: Apache-2.0
# weir_precompile(<library> [<header>…]): with WEIR_PRECOMPILE, let each file of the library begin with the headers of the
# standard library that most files include, compiled once for all libraries with the same options; with further headers,
# once for this one. Call it when the library has its options: with others gcc 12 has crashed, and clang refuses.
#
# Headers of weir are left out: they take little time, and a change of one would have every file compiled anew.
# Every file still includes what it needs: builds without this, as users make them, find what is missing.
include_guard()

function(weir_precompile target)
  # Fuzzing has the library instrumented, after this. ccache takes an old precompiled header for the new one, because it
  # preprocesses with it.
  if(NOT WEIR_PRECOMPILE OR WEIR_FUZZ OR CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache")
    return()
  endif()
  # gcc then warns about its own std::string operator+, as with -Wrestrict (WeirWarnings.cmake).
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow;-Wno-array-bounds>)
  set(headers <algorithm> <array> <atomic> <chrono> <cstdint> <cstring> <functional> <map> <memory> <mutex> <optional>
    <span> <string> <thread> <utility> <vector>)
  if(ARGN)
    target_precompile_headers(${target} PRIVATE ${headers} ${ARGN})
    return()
  endif()
  get_target_property(visibility ${target} CXX_VISIBILITY_PRESET)
  get_target_property(options ${target} COMPILE_OPTIONS)
  string(MD5 key "${visibility} ${options}")
  string(SUBSTRING ${key} 0 8 key)
  set(from weir_headers_${key})
  if(NOT TARGET ${from})
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/weir_headers.cpp" CONTENT "")
    add_library(${from} OBJECT EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/weir_headers.cpp")
    weir_target_options(${from})
    if(visibility)
      weir_hide_symbols(${from})
    endif()
    set_target_properties(${from} PROPERTIES COMPILE_OPTIONS "${options}")
    target_precompile_headers(${from} PRIVATE ${headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${from})
endfunction()
