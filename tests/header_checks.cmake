# SPDX-License-Identifier: Apache-2.0
# Every public header compiles alone: one generated source each, which includes it twice.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/include"
  "${PROJECT_SOURCE_DIR}/include/*.hpp")
# Needs headers that weir does not depend on.
list(FILTER headers EXCLUDE REGEX "interop/(cccl|python)\\.hpp$")

set(sources "")
foreach(header IN LISTS headers)
  string(REGEX REPLACE "[/.]" "_" name "${header}")
  set(source "${CMAKE_CURRENT_BINARY_DIR}/header_checks/${name}.cpp")
  file(CONFIGURE OUTPUT "${source}" CONTENT "#include \"${header}\"\n#include \"${header}\"\n")
  list(APPEND sources "${source}")
endforeach()
if(sources)
  add_library(weir_header_checks OBJECT ${sources})
  weir_target_options(weir_header_checks)
  target_link_libraries(weir_header_checks PRIVATE weir::weir)
endif()
