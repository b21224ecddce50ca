# SPDX-License-Identifier: Apache-2.0
# Finds RMM, for benchmarks beside it: in NVIDIA's wheels librmm-cu13 and rapids-logger, or in WEIR_RMM_DIR.
# Sets RMM_FOUND and RMM_NOT_FOUND_BECAUSE, and makes RMM::rmm.
include(FindPackageHandleStandardArgs)
include(WeirPython)

set(WEIR_RMM_DIR "" CACHE PATH "Folder that holds librmm and rapids_logger, as their wheels unpack them")

if(WEIR_RMM_DIR)
  set(_candidates "${WEIR_RMM_DIR}")
else()
  weir_python_paths(_candidates)
endif()

set(RMM_DIR_FOUND "")
foreach(_dir IN LISTS _candidates)
  if(EXISTS "${_dir}/librmm/lib64/librmm.so" AND EXISTS "${_dir}/rapids_logger/lib64/librapids_logger.so")
    set(RMM_DIR_FOUND "${_dir}")
    break()
  endif()
endforeach()
set(RMM_NOT_FOUND_BECAUSE "")
if(NOT RMM_DIR_FOUND)
  set(RMM_NOT_FOUND_BECAUSE "RMM not found: `pip install --no-deps librmm-cu13 rapids-logger`, or set WEIR_RMM_DIR")
endif()

set(RMM_FIND_QUIETLY TRUE) # the benchmarks print their own line
find_package_handle_standard_args(RMM REQUIRED_VARS RMM_DIR_FOUND)
if(RMM_FOUND AND NOT TARGET RMM::rmm)
  add_library(RMM::rmm INTERFACE IMPORTED)
  set_target_properties(RMM::rmm PROPERTIES
    # RMM's own CCCL comes before that of a toolkit.
    INTERFACE_INCLUDE_DIRECTORIES
      "${RMM_DIR_FOUND}/librmm/include;${RMM_DIR_FOUND}/librmm/include/rapids;${RMM_DIR_FOUND}/rapids_logger/include"
    # librmm.so does not say where the logger is: an RPATH, unlike a RUNPATH, also counts for what it loads.
    INTERFACE_LINK_LIBRARIES
      "${RMM_DIR_FOUND}/librmm/lib64/librmm.so;${RMM_DIR_FOUND}/rapids_logger/lib64/librapids_logger.so;-Wl,--disable-new-dtags")
endif()
