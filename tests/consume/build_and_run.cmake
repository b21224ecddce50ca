# SPDX-License-Identifier: Apache-2.0
# cmake -DCONSUMER=find_package|add_subdirectory -DWEIR_…= -P build_and_run.cmake
cmake_minimum_required(VERSION 3.22)
set(work "${WEIR_BUILD_DIR}/consume/${CONSUMER}")
file(REMOVE_RECURSE "${work}")

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed)
  if(failed)
    string(REPLACE ";" " " command "${ARGN}")
    message(FATAL_ERROR "failed: ${command}")
  endif()
endfunction()

set(arguments "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_BUILD_TYPE=Debug")
if(CONSUMER STREQUAL "find_package")
  run("${CMAKE_COMMAND}" --install "${WEIR_BUILD_DIR}" --prefix "${work}/prefix")
  list(APPEND arguments "-DCMAKE_PREFIX_PATH=${work}/prefix")
else()
  list(APPEND arguments "-DWEIR_SOURCE_DIR=${WEIR_SOURCE_DIR}" "-DWEIR_BACKENDS=host" -DBUILD_SHARED_LIBS=ON
    "-DWEIR_DLPACK_INCLUDE_DIR=${WEIR_DLPACK_INCLUDE_DIR}")
endif()
run("${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${CMAKE_CURRENT_LIST_DIR}/${CONSUMER}" -B "${work}/build" ${arguments})
run("${CMAKE_COMMAND}" --build "${work}/build")
run("${work}/build/consumer")
