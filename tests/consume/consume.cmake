# SPDX-License-Identifier: Apache-2.0
# Two small projects that use weir as their owners would, each built from nothing by one test.
#   find_package      an installed weir, as this build made it
#   add_subdirectory  the source tree, as a shared library, host backend only
include_guard()
set(consumer_arguments
  "-DGENERATOR=${CMAKE_GENERATOR}"
  "-DCXX=${CMAKE_CXX_COMPILER}"
  "-DWEIR_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
  "-DWEIR_BUILD_DIR=${PROJECT_BINARY_DIR}"
  "-DWEIR_DLPACK_INCLUDE_DIR=${DLPack_INCLUDE_DIR}")

foreach(consumer IN ITEMS find_package add_subdirectory)
  add_test(NAME weir_consume_${consumer}
    COMMAND "${CMAKE_COMMAND}" ${consumer_arguments} "-DCONSUMER=${consumer}"
      -P "${CMAKE_CURRENT_LIST_DIR}/build_and_run.cmake")
  weir_set_test_properties(weir_consume_${consumer} 900)
endforeach()
