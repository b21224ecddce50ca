# SPDX-License-Identifier: Apache-2.0
# The benchmark programs run, for an instant each row: where backends need nothing, and over the modelled CUDA driver.
set(command "${WEIR_PYTHON3}" "${CMAKE_CURRENT_SOURCE_DIR}/run/bench_programs_test.py" $<TARGET_FILE_DIR:bench_pool>)
set(real host)
if("vulkan" IN_LIST backends)
  string(APPEND real ",vulkan")
endif()
add_test(NAME weir_benchmark_programs COMMAND ${command} ${real})
weir_set_test_properties(weir_benchmark_programs)

if(TARGET weir_fake_cuda)
  set(test weir_benchmark_programs_on_fake_cuda)
  add_test(NAME ${test} COMMAND ${command} cuda "(elsewhere|streams)/.*cuMem")
  weir_set_test_properties(${test})
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT
    "WEIR_CUDA_LIBRARY=$<TARGET_FILE:weir_fake_cuda>" WEIR_REQUIRE=cuda)
endif()
