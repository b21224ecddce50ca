# SPDX-License-Identifier: Apache-2.0
# Small projects that use weir as their owners would, each built from nothing by one test.
#   find_package      an installed weir, as this build made it
#   pkg_config        the same, with a compiler alone
#   add_subdirectory  the source tree, as a shared library, host backend only; and then what it installs
#   fetch_content     the same, as FetchContent finds it in a folder below one that is called tests
#   absolute_folders  what is installed in folders that are given with all of their path
#   missing_backend   a backend that is asked for and cannot be built
#   test_wheel.py     the source archive and the wheel of ./dev wheels, in a clean environment
include_guard()
set(consumer_arguments
  "-DGENERATOR=${CMAKE_GENERATOR}"
  "-DCXX=${CMAKE_CXX_COMPILER}"
  "-DWEIR_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
  "-DWEIR_BUILD_DIR=${PROJECT_BINARY_DIR}"
  "-DWEIR_DLPACK_INCLUDE_DIR=${DLPack_INCLUDE_DIR}")

foreach(consumer IN ITEMS find_package pkg_config add_subdirectory fetch_content absolute_folders missing_backend)
  add_test(NAME weir_consume_${consumer}
    COMMAND "${CMAKE_COMMAND}" ${consumer_arguments} "-DCONSUMER=${consumer}"
      -P "${CMAKE_CURRENT_LIST_DIR}/build_and_run.cmake")
  weir_set_test_properties(weir_consume_${consumer})
  set_tests_properties(weir_consume_${consumer} PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: ")
endforeach()

if(TARGET _weir)
  add_test(NAME weir_wheel_tests
    COMMAND "${Python_EXECUTABLE}" -m pytest -q -rs -p no:cacheprovider
      "--junitxml=${WEIR_TEST_RESULT_DIR}/weir_wheel_tests.xml" "${CMAKE_CURRENT_LIST_DIR}/test_wheel.py")
  weir_set_test_properties(weir_wheel_tests)
  # It compiles weir with two processes, and is the longest of all: others wait less if it begins first.
  set_tests_properties(weir_wheel_tests PROPERTIES PROCESSORS 2 COST 1000)
  set_property(TEST weir_wheel_tests APPEND PROPERTY ENVIRONMENT CMAKE_BUILD_PARALLEL_LEVEL=2
    "CXX=${CMAKE_CXX_COMPILER}" "WEIR_BUILD_DIR=${PROJECT_BINARY_DIR}" PYTHONDONTWRITEBYTECODE=1)
endif()
