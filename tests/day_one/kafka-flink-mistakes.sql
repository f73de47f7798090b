-- expect: refused, the message names: 'properties.sasl.password' = 'secret:NAME' | a value that cannot be read is a dead letter | offsets are kept in the lake | did you mean 'properties.bootstrap.servers'? | CREATE SINK
CREATE STREAM a (x INT) WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.sasl.jaas.config' = 'org.apache.kafka…');
CREATE STREAM b (x INT) WITH ('connector' = 'kafka', 'topic' = 'b', 'json.ignore-parse-errors' = 'true');
CREATE STREAM c (x INT) WITH ('connector' = 'kafka', 'topic' = 'c', 'scan.startup.mode' = 'group-offsets');
CREATE STREAM d (x INT) WITH ('connector' = 'kafka', 'topic' = 'd', 'properties.bootstrap.serverz' = 'localhost:9092');
CREATE STREAM e (x INT) WITH ('connector' = 'kafka', 'topic' = 'e', 'sink.partitioner' = 'round-robin');
