# SPDX-License-Identifier: Apache-2.0
# weir_target_options(<target>): what every target of this project is compiled with.
# weir_hide_symbols(<target>): only what is marked with WEIR_API can be linked against.
include_guard()

function(weir_target_options target)
  # gcc 12 warns about its own std::string operator+ (GCC PR 105651).
  # gcc 16 warns about any std::pmr container over a memory_resource of one's own: it takes the resource for one of the
  # standard library, which is larger.
  # clang counts sign conversions as part of -Wconversion, gcc does not: both check the same.
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wconversion -Wshadow -Wundef
    $<$<CXX_COMPILER_ID:Clang,AppleClang>:-Wno-sign-conversion>
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,16>>:-Wno-array-bounds>
    $<$<BOOL:${WEIR_WERROR}>:-Werror>)
  if(CMAKE_UNITY_BUILD) # files that are compiled together see the names of each other
    target_compile_options(${target} PRIVATE -Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
    set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE 8) # in larger groups, names meet
  endif()
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    POSITION_INDEPENDENT_CODE ON)
  weir_target_sanitizers(${target})
endfunction()

function(weir_hide_symbols target)
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()
