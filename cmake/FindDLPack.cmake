# SPDX-License-Identifier: Apache-2.0
# Finds dlpack/dlpack.h of a sufficient version. Hint: WEIR_DLPACK_INCLUDE_DIR.
# Sets DLPack_FOUND, DLPack_VERSION, DLPack_INCLUDE_DIR (the folder that holds dlpack/).
include(FindPackageHandleStandardArgs)
include(WeirPython)

set(WEIR_DLPACK_INCLUDE_DIR "" CACHE PATH "Folder that holds dlpack/dlpack.h")

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

if(WEIR_DLPACK_INCLUDE_DIR)
  set(_candidates "${WEIR_DLPACK_INCLUDE_DIR}")
else()
  weir_python_header_dirs(_candidates tvm_ffi/include)
  list(APPEND _candidates /usr/local/include /usr/include)
endif()

set(_rejected "")
set(DLPack_INCLUDE_DIR "")
foreach(_dir IN LISTS _candidates)
  if(EXISTS "${_dir}/dlpack/dlpack.h")
    _weir_dlpack_version("${_dir}/dlpack/dlpack.h" _version)
    if(_version VERSION_LESS "${DLPack_FIND_VERSION}")
      string(APPEND _rejected " ${_dir} has ${_version}, too old;")
      continue()
    endif()
    set(DLPack_INCLUDE_DIR "${_dir}")
    set(DLPack_VERSION "${_version}")
    break()
  endif()
endforeach()

find_package_handle_standard_args(DLPack
  REQUIRED_VARS DLPack_INCLUDE_DIR
  VERSION_VAR DLPack_VERSION
  REASON_FAILURE_MESSAGE "dlpack/dlpack.h ≥ ${DLPack_FIND_VERSION} was not found.${_rejected}
  Run ./dev setup, or `pip install apache-tvm-ffi` (its wheel carries the header), or set WEIR_DLPACK_INCLUDE_DIR.")
