# SPDX-License-Identifier: Apache-2.0
# One folder of backends/ is one backend. Its CMakeLists.txt calls one of
#   weir_add_backend(NAME <name> [SOURCES …] [DEFINITIONS …] [INCLUDES …] [LIBRARIES …])
#     Without SOURCES: every .cpp below the folder, tests/ left out. INCLUDES are system directories.
#     The folder must define `const weir::spi::Backend* weir::<name>::backend() noexcept`.
#   weir_skip_backend(<name> "<why, and what to install>")
# before which it may name headers that only this backend implements, besides weir/<name>.hpp:
#   weir_backend_headers(<name> <path below include/weir>…)
# and backends/CMakeLists.txt ends with weir_write_backend_table().
include_guard()

function(weir_add_backend)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;DEFINITIONS;INCLUDES;LIBRARIES")
  if(NOT arg_SOURCES)
    file(GLOB_RECURSE arg_SOURCES CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
    list(FILTER arg_SOURCES EXCLUDE REGEX "/tests/")
  endif()
  if(WEIR_BACKENDS AND NOT arg_NAME IN_LIST WEIR_BACKENDS)
    weir_skip_backend(${arg_NAME} "") # which has a reason of its own for that
    return()
  endif()
  if(NOT arg_SOURCES)
    weir_skip_backend(${arg_NAME} "backends/${arg_NAME} has no sources")
    return()
  endif()

  set(target weir_backend_${arg_NAME})
  add_library(${target} OBJECT ${arg_SOURCES})
  weir_target_options(${target})
  weir_hide_symbols(${target})
  target_compile_definitions(${target} PRIVATE ${arg_DEFINITIONS})
  target_include_directories(${target} PRIVATE
    "${PROJECT_SOURCE_DIR}/include" "${PROJECT_BINARY_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
  target_include_directories(${target} SYSTEM PRIVATE ${arg_INCLUDES})

  target_sources(weir PRIVATE $<TARGET_OBJECTS:${target}>)
  target_link_libraries(weir PRIVATE ${arg_LIBRARIES})
  set_property(TARGET ${target} PROPERTY WEIR_SYSTEM_INCLUDES "${arg_INCLUDES}")
  set_property(TARGET ${target} PROPERTY WEIR_DEFINITIONS "${arg_DEFINITIONS}")
  set_property(GLOBAL APPEND PROPERTY WEIR_BACKENDS_BUILT ${arg_NAME})
  message(STATUS "weir backend ${arg_NAME}: on")
endfunction()

function(weir_backend_headers name)
  set_property(GLOBAL PROPERTY WEIR_BACKEND_${name}_HEADERS "${ARGN}")
endfunction()

function(weir_skip_backend name reason)
  if(WEIR_BACKENDS AND NOT name IN_LIST WEIR_BACKENDS)
    set(reason "not named in WEIR_BACKENDS")
  elseif(WEIR_BACKENDS)
    message(FATAL_ERROR "WEIR_BACKENDS names ${name}, which cannot be built: ${reason}")
  endif()
  set_property(GLOBAL APPEND PROPERTY WEIR_BACKENDS_SKIPPED ${name})
  set_property(GLOBAL PROPERTY WEIR_BACKEND_${name}_SKIPPED_BECAUSE "${reason}")
  message(STATUS "weir backend ${name}: skipped, ${reason}")
endfunction()

# backend_table.cpp lists all backends for the registry; backends.txt says the same to scripts, and weir/version.hpp to
# programs.
function(weir_write_backend_table)
  get_property(built GLOBAL PROPERTY WEIR_BACKENDS_BUILT)
  get_property(skipped GLOBAL PROPERTY WEIR_BACKENDS_SKIPPED)
  set(WEIR_BACKEND_DECLARATIONS "")
  set(WEIR_BACKEND_ENTRIES "")
  set(report "")
  set(WEIR_HAS_BACKENDS "")
  foreach(name IN LISTS built)
    string(TOUPPER "${name}" macro)
    string(APPEND WEIR_HAS_BACKENDS "#define WEIR_HAS_${macro} 1\n")
    string(APPEND WEIR_BACKEND_DECLARATIONS
      "namespace weir::${name} {\nconst spi::Backend* backend() noexcept;\n}\n")
    string(APPEND WEIR_BACKEND_ENTRIES "      {\"${name}\", &weir::${name}::backend, nullptr},\n")
    string(APPEND report "${name} built\n")
  endforeach()
  foreach(name IN LISTS skipped)
    string(TOUPPER "${name}" macro)
    string(APPEND WEIR_HAS_BACKENDS "#define WEIR_HAS_${macro} 0\n")
    get_property(reason GLOBAL PROPERTY WEIR_BACKEND_${name}_SKIPPED_BECAUSE)
    string(REGEX REPLACE "([\\\"])" "\\\\\\1" quoted "${reason}")
    string(APPEND WEIR_BACKEND_ENTRIES "      {\"${name}\", nullptr, \"${quoted}\"},\n")
    string(APPEND report "${name} skipped ${reason}\n")
  endforeach()
  set(table "${PROJECT_BINARY_DIR}/backend_table.cpp")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/backend_table.cpp.in" "${table}" @ONLY)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/backends.txt" CONTENT "${report}")
  target_sources(weir PRIVATE "${table}")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/version.hpp.in" "${PROJECT_BINARY_DIR}/include/weir/version.hpp" @ONLY)
endfunction()
