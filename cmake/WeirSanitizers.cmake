# SPDX-License-Identifier: Apache-2.0
# weir_target_sanitizers(<target>): instrument it as WEIR_SANITIZE says; who links it links the run-time too.
# weir_sanitizer_environment(<out>): the environment that tests need under these sanitizers.
include_guard()

function(weir_target_sanitizers target)
  if(NOT WEIR_SANITIZE)
    return()
  endif()
  string(REPLACE ";" "," names "${WEIR_SANITIZE}")
  target_compile_options(${target} PRIVATE
    -fsanitize=${names} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  if("undefined" IN_LIST WEIR_SANITIZE)
    # The check of virtual tables opens a pipe. Where a test leaves the process no files, it calls every object invalid.
    target_compile_options(${target} PRIVATE -fno-sanitize=vptr)
  endif()
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "OBJECT_LIBRARY")
    target_link_options(${target} PUBLIC -fsanitize=${names})
  endif()
endfunction()

function(weir_sanitizer_environment out)
  set(suppressions "${PROJECT_SOURCE_DIR}/tests/sanitizers")
  set(environment "")
  if("address" IN_LIST WEIR_SANITIZE)
    # The CUDA driver reserves address ranges where AddressSanitizer would keep its gap.
    list(APPEND environment
      "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:protect_shadow_gap=0:allocator_may_return_null=1"
      "LSAN_OPTIONS=suppressions=${suppressions}/leaks.txt:print_suppressions=0")
  endif()
  if("undefined" IN_LIST WEIR_SANITIZE)
    list(APPEND environment "UBSAN_OPTIONS=print_stacktrace=1")
  endif()
  if("thread" IN_LIST WEIR_SANITIZE)
    list(APPEND environment
      "TSAN_OPTIONS=suppressions=${suppressions}/threads.txt:halt_on_error=0:second_deadlock_stack=1")
  endif()
  set(${out} "${environment}" PARENT_SCOPE)
endfunction()
