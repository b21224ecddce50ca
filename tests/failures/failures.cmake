# SPDX-License-Identifier: Apache-2.0
# weir_failure_tests: every scenario with every call failing once, of the kernel, of operator new, of Vulkan's driver.
# Those of CUDA's driver: backends/cuda/tests/failing.
file(GLOB sources CONFIGURE_DEPENDS failures/*_test.cpp failures/inject/*.cpp)
get_property(built GLOBAL PROPERTY WEIR_BACKENDS_BUILT)
foreach(backend IN ITEMS vulkan cuda)
  if(NOT backend IN_LIST built)
    list(FILTER sources EXCLUDE REGEX "/${backend}[a-z_]*\\.cpp$")
  endif()
endforeach()
weir_add_test_binary(weir_failure_tests SOURCES ${sources})
target_link_libraries(weir_failure_tests PRIVATE weir_failure_support)
target_include_directories(weir_failure_tests PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}") # unit/fake_stream.hpp

# Calls of weir that inject/ stands in front of; the last two are std::thread's and random_device's.
function(weir_inject_system_calls target)
  foreach(call IN ITEMS memfd_create posix_fallocate fchmod fcntl fstat fstatfs mmap munmap madvise aligned_alloc
      socketpair getsockopt setsockopt shutdown pipe2 splice ioctl epoll_create1 epoll_ctl epoll_wait eventfd poll send sendmsg recvmsg close
      socket bind listen connect accept4 chmod link unlink lstat open flock getrandom
      _ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE
      _ZNSt13random_device7_M_initERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE)
    target_link_options(${target} PRIVATE "LINKER:--wrap=${call}")
  endforeach()
endfunction()
weir_inject_system_calls(weir_failure_tests)

if(cuda IN_LIST built)
  get_target_property(includes weir_backend_cuda WEIR_SYSTEM_INCLUDES)
  target_include_directories(weir_failure_tests PRIVATE "${PROJECT_SOURCE_DIR}/backends")
  target_include_directories(weir_failure_tests SYSTEM PRIVATE ${includes})
endif()

if(vulkan IN_LIST built)
  get_target_property(includes weir_backend_vulkan WEIR_SYSTEM_INCLUDES)
  get_target_property(definitions weir_backend_vulkan WEIR_DEFINITIONS)
  add_library(weir_failing_vulkan MODULE failures/vulkan_shim/shim.cpp)
  weir_target_options(weir_failing_vulkan)
  set_target_properties(weir_failing_vulkan PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${WEIR_TEST_BINARY_DIR}")
  target_link_libraries(weir_failing_vulkan PRIVATE ${CMAKE_DL_LIBS})
  weir_add_child_program(startup_program failures/vulkan_shim/startup_program.cpp)
  foreach(target IN ITEMS weir_failing_vulkan weir_failure_tests)
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/backends")
    target_include_directories(${target} SYSTEM PRIVATE ${includes})
    target_compile_definitions(${target} PRIVATE ${definitions})
  endforeach()
  foreach(target IN ITEMS startup_program weir_failure_tests)
    target_compile_definitions(${target} PRIVATE "WEIR_VULKAN_SHIM=\"$<TARGET_FILE:weir_failing_vulkan>\"")
    add_dependencies(${target} weir_failing_vulkan)
  endforeach()
  add_dependencies(weir_failure_tests startup_program)
endif()
weir_share_test(weir_failure_tests weir_failure_tests 3)
