# SPDX-License-Identifier: Apache-2.0
# Finds the CUDA driver API's cuda.h: a header only, nothing of CUDA is linked. Hint: WEIR_CUDA_INCLUDE_DIR.
# Sets CUDAHeader_FOUND, CUDAHeader_VERSION, CUDAHeader_INCLUDE_DIR, CUDAHeader_NOT_FOUND_BECAUSE.
include(FindPackageHandleStandardArgs)
include(WeirPython)

set(WEIR_CUDA_INCLUDE_DIR "" CACHE PATH "Folder that holds cuda.h")

function(_weir_cuda_version header out)
  file(STRINGS "${header}" line REGEX "^#define CUDA_VERSION +[0-9]+" LIMIT_COUNT 1)
  string(REGEX MATCH "[0-9]+$" number "${line}")
  if(NOT number)
    set(${out} "0" PARENT_SCOPE)
    return()
  endif()
  math(EXPR major "${number} / 1000")
  math(EXPR minor "${number} % 1000 / 10")
  set(${out} "${major}.${minor}" PARENT_SCOPE)
endfunction()

if(WEIR_CUDA_INCLUDE_DIR)
  set(_candidates "${WEIR_CUDA_INCLUDE_DIR}")
else()
  set(_candidates "")
  foreach(_root IN ITEMS "$ENV{CUDA_PATH}" "$ENV{CUDA_HOME}" /usr/local/cuda /opt/cuda)
    if(_root)
      list(APPEND _candidates "${_root}/include" "${_root}/targets/${CMAKE_SYSTEM_PROCESSOR}-linux/include")
    endif()
  endforeach()
  weir_python_header_dirs(_wheels nvidia/cu13/include nvidia/cuda_runtime/include)
  find_path(WEIR_FOUND_CUDA_HEADER cuda.h) # also below CMAKE_PREFIX_PATH
  mark_as_advanced(WEIR_FOUND_CUDA_HEADER)
  list(APPEND _candidates "${WEIR_FOUND_CUDA_HEADER}" /usr/include ${_wheels})
endif()

set(CUDAHeader_INCLUDE_DIR "")
set(CUDAHeader_NOT_FOUND_BECAUSE "cuda.h not found")
foreach(_dir IN LISTS _candidates)
  if(EXISTS "${_dir}/cuda.h")
    _weir_cuda_version("${_dir}/cuda.h" _version)
    if(_version VERSION_LESS "${CUDAHeader_FIND_VERSION}")
      set(CUDAHeader_NOT_FOUND_BECAUSE "${_dir}/cuda.h is of CUDA ${_version}, too old")
      continue()
    endif()
    set(CUDAHeader_INCLUDE_DIR "${_dir}")
    set(CUDAHeader_VERSION "${_version}")
    break()
  endif()
endforeach()

set(CUDAHeader_FIND_QUIETLY TRUE) # the backend prints its own line
find_package_handle_standard_args(CUDAHeader REQUIRED_VARS CUDAHeader_INCLUDE_DIR VERSION_VAR CUDAHeader_VERSION)
