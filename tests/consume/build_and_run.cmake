# SPDX-License-Identifier: Apache-2.0
# cmake -DCONSUMER=find_package|pkg_config|add_subdirectory|fetch_content|absolute_folders|missing_backend -DWEIR_…=
#   -P build_and_run.cmake
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

# What lies in an installed tree: the licence, and the headers of those backends that were built.
function(check_installed prefix build)
  file(GLOB_RECURSE licence "${prefix}/*/LICENSE")
  if(NOT licence)
    message(FATAL_ERROR "no licence was installed")
  endif()
  file(STRINGS "${build}/backends.txt" backends)
  foreach(line IN LISTS backends)
    string(REGEX MATCH "^([a-z]+) (built|skipped)" line "${line}")
    set(name "${CMAKE_MATCH_1}")
    set(state "${CMAKE_MATCH_2}")
    file(STRINGS "${WEIR_SOURCE_DIR}/backends/${name}/CMakeLists.txt" more REGEX "^weir_backend_headers\\(")
    string(REGEX REPLACE "^weir_backend_headers\\([a-z]+ ([^)]*)\\)$" "\\1" more "${more}")
    separate_arguments(more)
    foreach(header IN ITEMS ${name}.hpp ${more})
      if(EXISTS "${prefix}/include/weir/${header}")
        set(found built)
      else()
        set(found skipped)
      endif()
      if(NOT found STREQUAL state)
        message(FATAL_ERROR "backend ${name} was ${state}, and so should be weir/${header}")
      endif()
    endforeach()
  endforeach()
endfunction()

# A shared library is installed under a name that programs of another minor version do not load, and the command line
# finds it.
function(check_shared prefix)
  file(STRINGS "${WEIR_SOURCE_DIR}/CMakeLists.txt" line REGEX "^project\\(weir VERSION ")
  string(REGEX MATCH "[0-9]+\\.[0-9]+" minor "${line}")
  file(GLOB_RECURSE library "${prefix}/*/libweir.so.${minor}")
  if(NOT library)
    message(FATAL_ERROR "no libweir.so.${minor} was installed")
  endif()
  run("${CMAKE_COMMAND}" -E env --unset=LD_LIBRARY_PATH "${prefix}/bin/weir" --version)
endfunction()

if(CONSUMER STREQUAL "find_package" OR CONSUMER STREQUAL "pkg_config")
  run("${CMAKE_COMMAND}" --install "${WEIR_BUILD_DIR}" --prefix "${work}/prefix")
  check_installed("${work}/prefix" "${WEIR_BUILD_DIR}")
endif()
if(CONSUMER STREQUAL "pkg_config")
  find_program(pkg_config NAMES pkg-config pkgconf)
  if(NOT pkg_config)
    message(STATUS "skipped: pkg-config is not installed")
    return()
  endif()
  file(GLOB_RECURSE description "${work}/prefix/*/weir.pc")
  execute_process(COMMAND "${pkg_config}" --cflags --libs "${description}" OUTPUT_VARIABLE flags
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags)
  run("${CXX}" -std=c++20 "${CMAKE_CURRENT_LIST_DIR}/main.cpp" -o "${work}/consumer" ${flags})
  run("${CMAKE_COMMAND}" -E env "LD_LIBRARY_PATH=${work}/prefix/lib" "${work}/consumer")
  return()
endif()

if(CONSUMER STREQUAL "absolute_folders")
  run("${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${WEIR_SOURCE_DIR}" -B "${work}/build" "-DCMAKE_CXX_COMPILER=${CXX}"
    -DCMAKE_INSTALL_LIBDIR=/opt/one/lib -DCMAKE_INSTALL_INCLUDEDIR=/opt/other -DWEIR_BACKENDS=host
    "-DWEIR_DLPACK_INCLUDE_DIR=${WEIR_DLPACK_INCLUDE_DIR}" -DWEIR_BUILD_TOOLS=OFF)
  file(READ "${work}/build/weir.pc" description)
  foreach(line IN ITEMS "libdir=/opt/one/lib\n" "includedir=/opt/other\n")
    string(FIND "${description}" "${line}" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "weir.pc does not say ${line}: ${description}")
    endif()
  endforeach()
  return()
endif()

if(CONSUMER STREQUAL "missing_backend")
  execute_process(COMMAND "${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${WEIR_SOURCE_DIR}" -B "${work}/build"
      "-DCMAKE_CXX_COMPILER=${CXX}" "-DWEIR_BACKENDS=host;cuda" -DCMAKE_DISABLE_FIND_PACKAGE_CUDAHeader=ON
      "-DWEIR_DLPACK_INCLUDE_DIR=${WEIR_DLPACK_INCLUDE_DIR}" -DWEIR_BUILD_TOOLS=OFF
    RESULT_VARIABLE failed OUTPUT_QUIET ERROR_VARIABLE said)
  if(NOT failed OR NOT said MATCHES "WEIR_BACKENDS names cuda, which cannot be built")
    message(FATAL_ERROR "a backend that was asked for and cannot be built is left out without a word: ${said}")
  endif()
  return()
endif()

# With the checks of a debug build, but without what a debugger reads, which takes a sixth of the time. Headers are not
# precompiled here, because this is how users compile weir: a file that forgot an include is found.
set(compiler "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_BUILD_TYPE=Debug" "-DCMAKE_CXX_FLAGS_DEBUG=-O0")
function(build_and_run consumer folder)
  run("${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${CMAKE_CURRENT_LIST_DIR}/${consumer}" -B "${folder}"
    ${compiler} ${ARGN})
  if(consumer STREQUAL "fetch_content")
    return() # what it builds is what add_subdirectory builds
  endif()
  run("${CMAKE_COMMAND}" --build "${folder}")
  run("${folder}/consumer")
endfunction()

if(CONSUMER STREQUAL "find_package")
  build_and_run(find_package "${work}/build" "-DCMAKE_PREFIX_PATH=${work}/prefix")
  return()
endif()
if(CONSUMER STREQUAL "fetch_content")
  file(MAKE_DIRECTORY "${work}/tests")
  file(CREATE_LINK "${WEIR_SOURCE_DIR}" "${work}/tests/weir" SYMBOLIC)
  set(WEIR_SOURCE_DIR "${work}/tests/weir")
endif()
set(arguments "-DWEIR_SOURCE_DIR=${WEIR_SOURCE_DIR}" "-DWEIR_BACKENDS=host" -DBUILD_SHARED_LIBS=ON
  "-DWEIR_DLPACK_INCLUDE_DIR=${WEIR_DLPACK_INCLUDE_DIR}")
if(CONSUMER STREQUAL "add_subdirectory")
  list(APPEND arguments -DWEIR_INSTALL=ON -DWEIR_BUILD_TOOLS=ON)
endif()
build_and_run(${CONSUMER} "${work}/build" ${arguments})
if(CONSUMER STREQUAL "add_subdirectory") # what it installs is found by another project
  run("${CMAKE_COMMAND}" --install "${work}/build" --prefix "${work}/prefix")
  check_installed("${work}/prefix" "${work}/build/weir")
  check_shared("${work}/prefix")
  build_and_run(find_package "${work}/other" "-DCMAKE_PREFIX_PATH=${work}/prefix")
endif()
