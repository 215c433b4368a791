/* A Modbus server on libmodbus, which shares no line with ours: `libmodbus_server tcp PORT` or `libmodbus_server rtu DEVICE BAUD`.
 *
 * Units 1 and 2 answer over TCP, unit 1 on the serial line; every other unit is silent. Orders come as JSON lines on standard
 * input, as the simulated plant takes them: silent, hold_read_reply and hold_write_reply with "seconds", refuse with "code",
 * counts. What is read before anything was written: coil n is n % 3 == 0, discrete input n is n % 5 == 0, holding register n is
 * 7 * n + 1, input register n is 65535 - n. The server ends with its standard input.
 */
#include <errno.h>
#include <modbus/modbus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <time.h>
#include <unistd.h>

enum { BITS = 2048, REGISTERS = 300 };

static modbus_t *bus;
static modbus_mapping_t *tables;
static double silent_until, hold_read, hold_write;
static int refusal, connections, open_now, requests, writes;

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static double number(const char *line, const char *name) {
    const char *at = strstr(line, name);
    return at ? atof(strchr(at, ':') + 1) : 0;
}

static void obey(const char *line) {
    double seconds = number(line, "\"seconds\"");
    const char *name = "unknown";
    if (strstr(line, "\"silent\"")) {
        name = "silent";
        silent_until = now() + seconds;
    } else if (strstr(line, "\"hold_read_reply\"")) {
        name = "hold_read_reply";
        hold_read = seconds;
    } else if (strstr(line, "\"hold_write_reply\"")) {
        name = "hold_write_reply";
        hold_write = seconds;
    } else if (strstr(line, "\"refuse\"")) {
        name = "refuse";
        refusal = (int)number(line, "\"code\"");
    } else if (strstr(line, "\"counts\"")) {
        name = "counts";
        printf("{\"event\": \"counts\", \"connections\": %d, \"open\": %d, \"requests\": %d, \"writes\": %d}\n", connections,
               open_now, requests, writes);
    }
    printf("{\"event\": \"done\", \"do\": \"%s\"}\n", name);
}

static void reply(const uint8_t *request, int length, int is_tcp) {
    int header = modbus_get_header_length(bus);
    int unit = request[header - 1], function = request[header];
    int is_read = function >= 1 && function <= 4;
    double *held = is_read ? &hold_read : &hold_write;
    requests++;
    if (now() < silent_until || (is_tcp && unit != 1 && unit != 2))
        return;
    if (refusal) {
        modbus_reply_exception(bus, request, refusal);
        refusal = 0;
        return;
    }
    writes += !is_read;
    if (*held > 0) {
        usleep((useconds_t)(*held * 1e6));
        *held = 0;
    }
    modbus_reply(bus, request, length, tables);
}

static int listen_at(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 8)) {
        perror("listen");
        exit(1);
    }
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("{\"event\": \"ready\", \"port\": %d}\n", ntohs(address.sin_port));
    return listener;
}

static void serve(int socket, fd_set *all, int is_tcp) {
    uint8_t request[MODBUS_TCP_MAX_ADU_LENGTH];
    modbus_set_socket(bus, socket);
    int length = modbus_receive(bus, request);
    if (length > 0) {
        reply(request, length, is_tcp);
    } else if (length == 0 && !is_tcp) {
        modbus_receive(bus, request); /* it was for another unit: let that unit's answer pass, until the response time-out */
    } else if (length < 0 && is_tcp) {
        close(socket);
        FD_CLR(socket, all);
        open_now--;
    } else if (length < 0 && errno != EMBBADCRC && errno != ETIMEDOUT) {
        exit(0); /* the line is gone */
    }
}

int main(int count, char **words) {
    int is_tcp = count > 2 && !strcmp(words[1], "tcp"), listener = -1, line = -1;
    fd_set all, ready;
    setvbuf(stdout, NULL, _IOLBF, 0);
    tables = modbus_mapping_new(BITS, BITS, REGISTERS, REGISTERS);
    for (int n = 0; n < BITS; n++) {
        tables->tab_bits[n] = n % 3 == 0;
        tables->tab_input_bits[n] = n % 5 == 0;
    }
    for (int n = 0; n < REGISTERS; n++) {
        tables->tab_registers[n] = 7 * n + 1;
        tables->tab_input_registers[n] = 65535 - n;
    }
    FD_ZERO(&all);
    FD_SET(STDIN_FILENO, &all);
    if (is_tcp) {
        bus = modbus_new_tcp("127.0.0.1", atoi(words[2]));
        listener = listen_at(atoi(words[2]));
        FD_SET(listener, &all);
    } else {
        bus = modbus_new_rtu(words[2], atoi(words[3]), 'N', 8, 1) /* a pseudo-terminal has no parity */;
        modbus_set_slave(bus, 1);
        modbus_set_response_timeout(bus, 0, 50000);
        if (modbus_connect(bus)) {
            fprintf(stderr, "%s: %s\n", words[2], modbus_strerror(errno));
            return 1;
        }
        line = modbus_get_socket(bus);
        FD_SET(line, &all);
        printf("{\"event\": \"ready\", \"port\": 0}\n");
    }
    while (1) {
        ready = all;
        if (select(FD_SETSIZE, &ready, NULL, NULL, NULL) < 0)
            return 1;
        for (int each = 0; each < FD_SETSIZE; each++) {
            if (!FD_ISSET(each, &ready))
                continue;
            if (each == STDIN_FILENO) {
                char order[256];
                if (!fgets(order, sizeof order, stdin))
                    return 0;
                obey(order);
            } else if (each == listener) {
                int client = accept(listener, NULL, NULL); /* FD_SET is a macro and would accept twice */
                FD_SET(client, &all);
                connections++;
                open_now++;
            } else {
                serve(each, &all, is_tcp);
            }
        }
    }
}
