# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where: the library, its headers without those of backends that were not built, the licence,
# and what find_package and pkg-config read.
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/weir")
get_property(weir_BACKENDS GLOBAL PROPERTY WEIR_BACKENDS_BUILT)
get_property(skipped GLOBAL PROPERTY WEIR_BACKENDS_SKIPPED)

set(absent "")
foreach(name IN LISTS skipped)
  get_property(headers GLOBAL PROPERTY WEIR_BACKEND_${name}_HEADERS)
  foreach(header IN ITEMS ${name}.hpp ${headers})
    string(REPLACE "." "\\." header "${header}")
    list(APPEND absent REGEX "/weir/${header}$" EXCLUDE)
  endforeach()
endforeach()

install(TARGETS weir EXPORT weir-targets)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" "${PROJECT_BINARY_DIR}/include/"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.hpp" ${absent})
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

install(EXPORT weir-targets NAMESPACE weir:: DESTINATION "${package_dir}")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/weir-config.cmake.in" "${PROJECT_BINARY_DIR}/weir-config.cmake"
  INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/weir-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/weir-config.cmake" "${PROJECT_BINARY_DIR}/weir-config-version.cmake"
  DESTINATION "${package_dir}")

# Relative to the file itself, so that an installed tree may be moved.
file(RELATIVE_PATH prefix_from_pc "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
set(further_libraries "")
if(NOT BUILD_SHARED_LIBS) # a static weir brings what it links
  set(further_libraries " -pthread -ldl")
endif()
configure_file("${CMAKE_CURRENT_LIST_DIR}/weir.pc.in" "${PROJECT_BINARY_DIR}/weir.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/weir.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
