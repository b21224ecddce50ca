# SPDX-License-Identifier: Apache-2.0
# Finds the static CUDA runtime beside the header cuda.h of the CUDA backend, for programs that use CCCL or RMM.
# Sets CUDARuntime_FOUND, CUDARuntime_LIBRARIES, CUDARuntime_INCLUDE_DIR, CUDARuntime_NOT_FOUND_BECAUSE.
include(FindPackageHandleStandardArgs)

set(CUDARuntime_INCLUDE_DIR "")
set(CUDARuntime_NOT_FOUND_BECAUSE "")
if(TARGET weir_backend_cuda)
  get_target_property(CUDARuntime_INCLUDE_DIR weir_backend_cuda WEIR_SYSTEM_INCLUDES)
  find_library(WEIR_CUDART NAMES cudart_static NO_DEFAULT_PATH
    HINTS "${CUDARuntime_INCLUDE_DIR}/../lib" "${CUDARuntime_INCLUDE_DIR}/../lib64"
      "${CUDARuntime_INCLUDE_DIR}/../targets/${CMAKE_SYSTEM_PROCESSOR}-linux/lib")
  mark_as_advanced(WEIR_CUDART)
  find_path(WEIR_CUDA_CRT NAMES crt/host_defines.h NO_DEFAULT_PATH HINTS ${CUDARuntime_INCLUDE_DIR})
  mark_as_advanced(WEIR_CUDA_CRT)
  if(NOT WEIR_CUDART)
    set(CUDARuntime_NOT_FOUND_BECAUSE "libcudart_static.a is not beside ${CUDARuntime_INCLUDE_DIR}")
  elseif(NOT WEIR_CUDA_CRT)
    set(CUDARuntime_NOT_FOUND_BECAUSE
      "crt/host_defines.h is not in ${CUDARuntime_INCLUDE_DIR}: `pip install nvidia-cuda-crt`")
  endif()
  set(CUDARuntime_LIBRARIES "${WEIR_CUDART}" ${CMAKE_DL_LIBS} rt)
else()
  set(CUDARuntime_NOT_FOUND_BECAUSE "the CUDA backend is not built")
endif()

set(CUDARuntime_FIND_QUIETLY TRUE) # those that use it print their own line
find_package_handle_standard_args(CUDARuntime REQUIRED_VARS CUDARuntime_INCLUDE_DIR WEIR_CUDART WEIR_CUDA_CRT)
