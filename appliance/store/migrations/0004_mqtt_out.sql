-- What is published by MQTT waits in the same table as what is said: a topic, a JSON payload, and whether the broker keeps it.
ALTER TABLE delivery ADD COLUMN topic TEXT;
ALTER TABLE delivery ADD COLUMN payload TEXT;
ALTER TABLE delivery ADD COLUMN retain INTEGER NOT NULL DEFAULT 0
    CHECK (retain IN (0, 1) AND (channel = 'mqtt') = (topic IS NOT NULL) AND (topic IS NULL) = (payload IS NULL));
