# SPDX-License-Identifier: Apache-2.0
# weir_target_options(<target>): what every target of this project is compiled with.
include_guard()

function(weir_target_options target)
  # clang counts sign conversions as part of -Wconversion, gcc does not: both check the same.
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wconversion -Wshadow -Wundef
    $<$<CXX_COMPILER_ID:Clang,AppleClang>:-Wno-sign-conversion>
    $<$<BOOL:${WEIR_WERROR}>:-Werror>)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    POSITION_INDEPENDENT_CODE ON)
  weir_target_sanitizers(${target})
endfunction()
