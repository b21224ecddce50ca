# SPDX-License-Identifier: Apache-2.0
# Finds dlpack/dlpack.h of a sufficient version on the system or in Python, else fetches it from its upstream.
# Hint: WEIR_DLPACK_INCLUDE_DIR. WEIR_FETCH_DEPS=OFF forbids fetching, ALWAYS prefers it.
# Sets DLPack_FOUND, DLPack_VERSION, DLPack_INCLUDE_DIR (the folder that holds dlpack/).
include(FindPackageHandleStandardArgs)
include(WeirPython)

set(WEIR_DLPACK_INCLUDE_DIR "" CACHE PATH "Folder that holds dlpack/dlpack.h")
set(WEIR_FETCH_DEPS ON CACHE STRING "Fetch dlpack.h where this machine has none: ON, OFF, or ALWAYS")
set(WEIR_DLPACK_REPOSITORY "https://github.com/dmlc/dlpack" CACHE STRING "Git repository that dlpack.h is fetched from")
set(WEIR_DLPACK_COMMIT "84d107bf416c6bab9ae68ad285876600d230490d" CACHE STRING "Commit that is fetched: version 1.3")
mark_as_advanced(WEIR_DLPACK_REPOSITORY WEIR_DLPACK_COMMIT)
set(_dlpack_sha256 62052bef24bd69bb7b52e95428f9e99bd7951783850c36c5f2a41e71fd63c2fc) # of its dlpack.h

function(_weir_dlpack_version header out)
  file(STRINGS "${header}" lines REGEX "^#define DLPACK_(MAJOR|MINOR)_VERSION +[0-9]+")
  string(REGEX REPLACE ".*MAJOR_VERSION +([0-9]+).*" "\\1" major "${lines}")
  string(REGEX REPLACE ".*MINOR_VERSION +([0-9]+).*" "\\1" minor "${lines}")
  if(NOT "${major}.${minor}" MATCHES "^[0-9]+\\.[0-9]+$")
    set(${out} "0" PARENT_SCOPE) # before 1.0 the header has no such macros
  else()
    set(${out} "${major}.${minor}" PARENT_SCOPE)
  endif()
endfunction()

# The header at that commit, in the build folder. Sets <out> to the folder that holds dlpack/, or <why> to what went wrong.
function(_weir_fetch_dlpack out why)
  set(work "${PROJECT_BINARY_DIR}/dlpack-${WEIR_DLPACK_COMMIT}")
  set(header "${work}/include/dlpack/dlpack.h")
  set(${out} "" PARENT_SCOPE)
  if(NOT EXISTS "${header}")
    find_program(WEIR_GIT git DOC "Fetches dlpack.h")
    mark_as_advanced(WEIR_GIT)
    if(NOT WEIR_GIT)
      set(${why} "git was not found" PARENT_SCOPE)
      return()
    endif()
    message(STATUS "weir: fetching dlpack.h from ${WEIR_DLPACK_REPOSITORY}")
    file(REMOVE_RECURSE "${work}")
    file(MAKE_DIRECTORY "${work}")
    foreach(step IN ITEMS "init;-q" "fetch;-q;--depth=1;${WEIR_DLPACK_REPOSITORY};${WEIR_DLPACK_COMMIT}"
            "checkout;-q;FETCH_HEAD")
      execute_process(COMMAND "${WEIR_GIT}" ${step} WORKING_DIRECTORY "${work}" RESULT_VARIABLE failed
        OUTPUT_QUIET ERROR_VARIABLE said ERROR_STRIP_TRAILING_WHITESPACE)
      if(failed)
        file(REMOVE_RECURSE "${work}")
        set(${why} "${WEIR_DLPACK_REPOSITORY} could not be fetched: ${said}" PARENT_SCOPE)
        return()
      endif()
    endforeach()
  endif()
  file(SHA256 "${header}" sum)
  if(NOT sum STREQUAL _dlpack_sha256)
    file(REMOVE_RECURSE "${work}")
    set(${why} "commit ${WEIR_DLPACK_COMMIT} of ${WEIR_DLPACK_REPOSITORY} has another dlpack.h than expected" PARENT_SCOPE)
    return()
  endif()
  set(${out} "${work}/include" PARENT_SCOPE)
endfunction()

if(WEIR_DLPACK_INCLUDE_DIR)
  set(_candidates "${WEIR_DLPACK_INCLUDE_DIR}")
elseif(WEIR_FETCH_DEPS STREQUAL "ALWAYS")
  set(_candidates "")
else()
  weir_python_header_dirs(_candidates tvm_ffi/include)
  find_path(WEIR_FOUND_DLPACK dlpack/dlpack.h) # also below CMAKE_PREFIX_PATH
  mark_as_advanced(WEIR_FOUND_DLPACK)
  list(APPEND _candidates "${WEIR_FOUND_DLPACK}" /usr/local/include /usr/include)
endif()

set(_rejected "")
set(DLPack_INCLUDE_DIR "")
foreach(_dir IN LISTS _candidates)
  if(EXISTS "${_dir}/dlpack/dlpack.h")
    _weir_dlpack_version("${_dir}/dlpack/dlpack.h" _version)
    if(_version VERSION_LESS "${DLPack_FIND_VERSION}")
      string(APPEND _rejected " ${_dir} has ${_version}, which is too old.")
      continue()
    endif()
    set(DLPack_INCLUDE_DIR "${_dir}")
    set(DLPack_VERSION "${_version}")
    break()
  endif()
endforeach()

if(NOT DLPack_INCLUDE_DIR AND NOT WEIR_DLPACK_INCLUDE_DIR AND WEIR_FETCH_DEPS)
  _weir_fetch_dlpack(DLPack_INCLUDE_DIR _why)
  if(DLPack_INCLUDE_DIR)
    _weir_dlpack_version("${DLPack_INCLUDE_DIR}/dlpack/dlpack.h" DLPack_VERSION)
  else()
    string(APPEND _rejected " ${_why}.")
  endif()
endif()

string(REPLACE ";" "," _rejected "${_rejected}") # which would end an argument below
find_package_handle_standard_args(DLPack
  REQUIRED_VARS DLPack_INCLUDE_DIR
  VERSION_VAR DLPack_VERSION
  REASON_FAILURE_MESSAGE "dlpack/dlpack.h ≥ ${DLPack_FIND_VERSION} was not found.${_rejected}
  Set WEIR_DLPACK_INCLUDE_DIR to the folder that holds dlpack/, or `pip install apache-tvm-ffi`, whose wheel carries it,
  or allow the build to fetch it (WEIR_FETCH_DEPS=ON, which needs git and a network), or run ./dev setup.")
