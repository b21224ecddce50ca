# SPDX-License-Identifier: Apache-2.0
# Finds CCCL's headers (cuda/memory_resource): in NVIDIA's wheel nvidia-cuda-cccl, a toolkit, or WEIR_CCCL_INCLUDE_DIR.
# Sets CCCL_FOUND, CCCL_VERSION, CCCL_INCLUDE_DIR, CCCL_NOT_FOUND_BECAUSE.
include(FindPackageHandleStandardArgs)
include(WeirPython)

set(WEIR_CCCL_INCLUDE_DIR "" CACHE PATH "Folder that holds CCCL's cuda/memory_resource")

function(_weir_cccl_version header out)
  file(STRINGS "${header}" line REGEX "^#define CCCL_VERSION +[0-9]+" LIMIT_COUNT 1)
  string(REGEX MATCH "[0-9]+$" number "${line}")
  if(NOT number)
    set(${out} "0" PARENT_SCOPE)
    return()
  endif()
  math(EXPR major "${number} / 1000000")
  math(EXPR minor "${number} / 1000 % 1000")
  set(${out} "${major}.${minor}" PARENT_SCOPE)
endfunction()

if(WEIR_CCCL_INCLUDE_DIR)
  set(_candidates "${WEIR_CCCL_INCLUDE_DIR}")
else()
  weir_python_header_dirs(_candidates nvidia/cu13/include/cccl)
  foreach(_root IN ITEMS "$ENV{CUDA_PATH}" "$ENV{CUDA_HOME}" /usr/local/cuda /opt/cuda)
    if(_root)
      list(APPEND _candidates "${_root}/include/cccl")
    endif()
  endforeach()
endif()

set(CCCL_INCLUDE_DIR "")
set(CCCL_NOT_FOUND_BECAUSE "CCCL not found")
foreach(_dir IN LISTS _candidates)
  if(EXISTS "${_dir}/cuda/std/__cccl/version.h")
    _weir_cccl_version("${_dir}/cuda/std/__cccl/version.h" _version)
    if(_version VERSION_LESS "${CCCL_FIND_VERSION}")
      set(CCCL_NOT_FOUND_BECAUSE "${_dir} is CCCL ${_version}, too old")
      continue()
    endif()
    set(CCCL_INCLUDE_DIR "${_dir}")
    set(CCCL_VERSION "${_version}")
    break()
  endif()
endforeach()

set(CCCL_FIND_QUIETLY TRUE) # the tests print their own line
find_package_handle_standard_args(CCCL REQUIRED_VARS CCCL_INCLUDE_DIR VERSION_VAR CCCL_VERSION)
