# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` copies: the program, the shared libraries, headers, pkg-config files, the CMake package
# (find_package(Tutti)), systemd units and scenarios.
include(CMakePackageConfigHelpers)

install(TARGETS tutti RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# tutti_install_library(TARGET EXPORTED_NAME PKG_CONFIG_NAME description)
# With the imported target Tutti::EXPORTED_NAME and PKG_CONFIG_NAME.pc.
function(tutti_install_library target name package description)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS ${target} EXPORT TuttiTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${CMAKE_INSTALL_INCLUDEDIR}/tutti/bundled)
  get_target_property(library ${target} OUTPUT_NAME)
  file(RELATIVE_PATH prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  configure_file(${CMAKE_SOURCE_DIR}/packaging/pkgconfig/library.pc.in ${CMAKE_BINARY_DIR}/${package}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

tutti_install_library(tutti_shared scheduler tutti "The scheduler of Tutti, for C and C++")
tutti_install_library(tutti_client_shared client tutti-client "Files through a Tutti cluster, for C and C++")
tutti_install_library(tutti_gate_shared gate tutti-gate "Turns for checkpoints, for C")
tutti_install_library(agios_shared agios tutti-agios "The scheduler of Tutti with the interface of AGIOS")

# Preloaded by MPI programs: no headers, no soname.
if(TUTTI_MPI_LIBRARIES)
  install(TARGETS ${TUTTI_MPI_LIBRARIES} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
# The programs of `tutti lab run resonant-demo --live`, which looks for them beside itself.
if(TUTTI_MPI_PROGRAMS)
  install(TARGETS ${TUTTI_MPI_PROGRAMS} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

install(DIRECTORY include/tutti DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES apps/agios/agios.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# The C++ headers include this one header of another project (CC0). With a copy the installed tree needs nothing else.
find_path(TUTTI_EXPECTED tl/expected.hpp REQUIRED)
install(FILES ${TUTTI_EXPECTED}/tl/expected.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tutti/bundled/tl)

set(cmake_package ${CMAKE_INSTALL_LIBDIR}/cmake/Tutti)
install(EXPORT TuttiTargets NAMESPACE Tutti:: DESTINATION ${cmake_package} FILE TuttiConfig.cmake)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/TuttiConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/TuttiConfigVersion.cmake DESTINATION ${cmake_package})

# Written when the tree is installed, because the prefix may be chosen then.
foreach(unit tutti-node tutti-gate)
  install(CODE "set(TUTTI_BIN \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
configure_file(${CMAKE_SOURCE_DIR}/packaging/systemd/${unit}.service.in ${CMAKE_BINARY_DIR}/installed/${unit}.service @ONLY)")
  install(FILES ${CMAKE_BINARY_DIR}/installed/${unit}.service DESTINATION lib/systemd/system)
endforeach()

install(DIRECTORY scenarios DESTINATION ${CMAKE_INSTALL_DATADIR}/tutti)
